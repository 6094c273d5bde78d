"""Conversion: what an operator's functions answer to a ConversionReview. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from kubewright.api.errors import APIError, BadRequest, DecodeError, KubewrightError
from kubewright.api.resource import GroupVersionKind, NamespacedName, Object, Resource
from kubewright.runtime.managed_kind import CustomKind
from kubewright.runtime.operator import CONVERT_PATH, Operator
from kubewright.webhook.review import (
    ConversionRequest,
    build_conversion,
    build_failure,
    decode_conversion,
)

_OWN_METADATA = ("labels", "annotations")
"""What of the metadata a conversion may change; the API server refuses any other change."""


class ConversionFailed(KubewrightError):
    """An object cannot be converted; the message names it."""


class ConversionWebhook:
    """Converts the objects of all kinds of some operators that have several versions."""

    path: ClassVar[str] = CONVERT_PATH
    body_limit: ClassVar[int] = 64 << 20
    """A list is sent whole: 500 objects, the usual page, of 128 KiB each."""
    default_timeout: ClassVar[float] = 30

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._kinds: dict[GroupVersionKind, tuple[Operator, CustomKind[Any]]] = {}
        for operator in operators:
            for versions in operator.versions():
                if len(versions) > 1:
                    self._kinds |= {kind.resource.gvk: (operator, kind) for kind in versions}

    @property
    def name(self) -> str:
        """What logs call it."""
        return "convert"

    @property
    def resources(self) -> list[Resource]:
        """The versions that it converts."""
        return [kind.resource for _, kind in self._kinds.values()]

    def decode(self, body: bytes) -> ConversionRequest:
        """Read a request.

        Raises:
            BadRequest: it is none.
        """
        return decode_conversion(body)

    def review(self, request: ConversionRequest) -> Object:
        """Return the review that answers a request: all objects are converted, or none.

        Raises:
            Exception: a function of the user fails; the message names the object.
        """
        try:
            objects = [self.convert(obj, request.desired_api_version) for obj in request.objects]
        except ConversionFailed as error:
            return self.refuse(request, BadRequest(str(error), None))
        response = {"convertedObjects": objects, "result": {"status": "Success"}}
        return build_conversion(request.uid, response)

    def refuse(self, request: ConversionRequest, error: APIError) -> Object:
        """Return the review that answers a request with the error that stopped it."""
        return build_conversion(
            request.uid, {"convertedObjects": [], "result": build_failure(error)}
        )

    def convert(self, obj: Object, api_version: str) -> Object:
        """Return an object in another version of its kind, `api_version`.

        Raises:
            TypeError: a function returned something else than an object of its version.
            ConversionFailed: no function does it, or the object is none of its kind.
        """
        source = GroupVersionKind.of(obj)
        target = GroupVersionKind.parse(api_version, source.kind)
        if source == target:
            return obj
        who = f"{source.kind} {NamespacedName.of(obj)}"
        if source not in self._kinds or target not in self._kinds:
            missing = source if source not in self._kinds else target
            raise ConversionFailed(f"{who}: no operator here has a class for {missing}")
        operator, kind = self._kinds[source]
        try:
            converted: Any = kind.decode(msgspec.json.encode(obj))
        except DecodeError as error:
            raise ConversionFailed(f"{who}: {error}") from error
        steps = operator.conversions.find_path(kind.resource, self._kinds[target][1].resource)
        for resource, function in steps:
            converted = function(converted)
            if getattr(converted, "resource", None) != resource:
                raise TypeError(
                    f"{getattr(function, '__name__', function)} returned a "
                    f"{type(converted).__name__}: return a {resource.kind} of {resource.version}"
                )
        return _restore_metadata(converted.to_object(), obj)


def _restore_metadata(converted: Object, original: Object) -> Object:
    """Keep what identifies an object, and what its class does not know, such as managedFields."""
    kept = original.get("metadata") or {}
    metadata = {key: value for key, value in kept.items() if key not in _OWN_METADATA}
    own = converted.get("metadata") or {}
    metadata |= {key: own[key] for key in _OWN_METADATA if own.get(key)}
    return {**converted, "metadata": metadata}
