"""Who owns which fields: the door to `apply` for the verbs."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.apply.apply import apply_object, track_update
from kubewright.local.apiserver.apply.managers import ManagerIdentity
from kubewright.local.apiserver.exchange import encode_json
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.options import WriteOptions
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.schema.node import SchemaNode
from kubewright.local.apiserver.storage import decode_json

_EMPTY: dict[str, Object] = {}


def identify(call: Call, options: WriteOptions, subresource: str = "") -> ManagerIdentity:
    """Tell who writes: the fieldManager, or else the program that the User-Agent names."""
    name = options.field_manager
    if not name:
        name = call.request.header("user-agent").partition("/")[0][:128] or "unknown"
    return ManagerIdentity(name, call.kind.resource.api_version, subresource)


class KindVersions:
    """The other versions of a kind, whose managers own fields under other names."""

    def __init__(self, registry: Registry, kind: ServedKind) -> None:
        self._registry = registry
        self._kind = kind

    def schema(self, api_version: str) -> SchemaNode | None:
        """Return the schema of a version; None where it is not served any more."""
        kind = self._find(api_version)
        return None if kind is None else kind.schema

    def convert(self, obj: Object, api_version: str) -> Object:
        """Return the object in another version."""
        kind = self._find(api_version)
        if kind is None or obj.get("apiVersion") == api_version:
            return obj
        copy: Object = decode_json(encode_json(obj))
        return kind.convert(copy) if kind.convert else {**copy, "apiVersion": api_version}

    def _find(self, api_version: str) -> ServedKind | None:
        group, _, version = api_version.rpartition("/")
        return self._registry.find(group, version, self._kind.resource.plural)


def versions_of(call: Call) -> KindVersions | None:
    """Return the versions of a kind; None for a kind that has one alone."""
    kind, registry = call.kind, call.backend.registry
    # A definition may have served other versions before, whose managers are still recorded.
    several = kind.is_custom or registry.has_versions(kind)
    return KindVersions(registry, kind) if several else None


def empty_object(kind: ServedKind) -> Object:
    """Return what an object of the kind holds when nothing is set. Shared: not to be changed."""
    if kind.is_custom:
        return {}
    known = _EMPTY.get(kind.definition)
    if known is None:
        resource = kind.resource
        bare = {"kind": resource.kind, "apiVersion": resource.api_version}
        known = _EMPTY[kind.definition] = kind.strategy.decode(bare).obj
    return known


def track(
    call: Call, options: WriteOptions, live: Object | None, new: Object, subresource: str = ""
) -> Object:
    """Return the new object with managedFields that say what the write changed."""
    return track_update(
        live,
        new,
        schema=call.kind.schema,
        manager=identify(call, options, subresource),
        now=format_time(call.backend.now()),
        reset=call.kind.reset_fields.get(subresource, ()),
        empty=empty_object(call.kind),
        versions=versions_of(call),
        is_custom=call.kind.is_custom,
    )


def apply(
    call: Call, options: WriteOptions, live: Object | None, config: Object, subresource: str = ""
) -> Object:
    """Return the live object with a configuration applied.

    Raises:
        Conflict: other managers own fields that the configuration would change.
        BadRequest: the configuration is of another type.
        APIError: it does not fit the schema.
        Invalid: a custom object has a null where its schema allows none.
    """

    def complete(obj: Object) -> None:
        if call.kind.is_custom:
            _refuse_nulls(call, obj)
        decoded = call.kind.strategy.decode(obj).obj
        call.kind.strategy.default(decoded)
        if decoded is not obj:
            obj.clear()
            obj.update(decoded)

    return apply_object(
        live,
        config,
        schema=call.kind.schema,
        manager=identify(call, options, subresource),
        now=format_time(call.backend.now()),
        force=bool(options.force),
        default=complete,
        reset=call.kind.reset_fields.get(subresource, ()),
        empty=empty_object(call.kind),
        versions=versions_of(call),
        kind=call.kind.resource.kind,
    )


def _refuse_nulls(call: Call, obj: Object) -> None:
    from kubewright.local.apiserver.crd.custom_strategy import CustomStrategy  # served: loaded

    strategy = call.kind.strategy
    if isinstance(strategy, CustomStrategy) and (nulls := strategy.find_nulls(obj)):
        raise call.invalid(obj["metadata"].get("name") or call.name, nulls)
