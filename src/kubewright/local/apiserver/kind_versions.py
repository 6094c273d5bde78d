"""The versions of a kind, as those who own fields name them (structured-merge-diff's Converter)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.typed_value import is_typed, validate_value
from kubewright.local.apiserver.conversion import ConversionFailed, VersionConverter
from kubewright.local.apiserver.exchange import encode_json
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.schema.node import SchemaNode
from kubewright.local.apiserver.storage import decode_json

T = TypeVar("T")


async def convert_object(obj: Object, kind: ServedKind) -> Object:
    """Return an object of another version of a kind in this one; the one given is not changed.

    Raises:
        ConversionFailed: a webhook does not convert it.
    """
    if kind.webhook is None:
        return _convert_here(obj, kind)
    (converted,) = await kind.webhook.convert([obj], kind.resource.api_version)
    return converted


def _convert_here(obj: Object, kind: ServedKind) -> Object:
    copy: Object = decode_json(encode_json(obj))
    return kind.convert(copy) if kind.convert else {**copy, "apiVersion": kind.resource.api_version}


class ConversionNeeded(Exception):
    """A webhook must convert an object before the work can be done; `KindVersions.resolve` asks."""

    def __init__(self, converter: VersionConverter, obj: Object, api_version: str) -> None:
        super().__init__(f"an object in {api_version}")
        self.converter = converter
        self.obj = obj
        self.api_version = api_version


class KindVersions:
    """The other versions of a kind, whose managers own fields under other names.

    Merging is pure and does not wait. Where a webhook converts, it is run inside `resolve`, which
    asks for each conversion that turns out to be missing and runs it again.
    """

    def __init__(self, registry: Registry, kind: ServedKind) -> None:
        self._registry = registry
        self._kind = kind
        self._known: dict[tuple[bytes, str], Object] = {}

    def schema(self, api_version: str) -> SchemaNode | None:
        """Return the schema of a version; None where it is not served any more."""
        kind = self._find(api_version)
        return None if kind is None else kind.schema

    def convert(self, obj: Object, api_version: str) -> Object:
        """Return the object in another version.

        Raises:
            ConversionNeeded: the webhook has not been asked yet.
        """
        kind = self._find(api_version)
        if kind is None or obj.get("apiVersion") == api_version:
            return obj
        if kind.webhook is not None:
            return self._converted(kind.webhook, obj, api_version)
        return _convert_here(obj, kind)

    async def resolve(self, work: Callable[[], T]) -> T:
        """Do pure work that converts between versions.

        Raises:
            ConversionFailed: the webhook does not convert, or not into what the schema declares.
        """
        while True:
            try:
                return work()
            except ConversionNeeded as needed:
                await self._learn(needed)

    def _converted(self, converter: VersionConverter, obj: Object, api_version: str) -> Object:
        if "apiVersion" not in obj:
            # Nothing is converted to nothing: what an object is compared with when it is new.
            return obj
        found = self._known.get((encode_json(obj), api_version))
        if found is None:
            raise ConversionNeeded(converter, obj, api_version)
        return found

    async def _learn(self, needed: ConversionNeeded) -> None:
        (converted,) = await needed.converter.convert([needed.obj], needed.api_version)
        schema = self.schema(needed.api_version)
        # Not pruned, as stored objects are: here a field that is unknown is an error.
        if schema is not None and not is_typed(converted, schema):
            problem = validate_value(converted, schema)[0]
            raise ConversionFailed(f"failed to convert to {needed.api_version}: {problem}", None)
        self._known[encode_json(needed.obj), needed.api_version] = converted

    def _find(self, api_version: str) -> ServedKind | None:
        group, _, version = api_version.rpartition("/")
        return self._registry.find(group, version, self._kind.resource.plural)
