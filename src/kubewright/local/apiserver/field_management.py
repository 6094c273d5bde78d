"""Who owns which fields: the door to `apply` for the verbs."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.apply.apply import apply_object, keep_managers, track_update
from kubewright.local.apiserver.apply.managers import ManagerIdentity
from kubewright.local.apiserver.conversion import ConversionFailed
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.kind_versions import KindVersions
from kubewright.local.apiserver.options import WriteOptions
from kubewright.local.apiserver.rest.call import Call

_EMPTY: dict[str, Object] = {}


def identify(call: Call, options: WriteOptions, subresource: str = "") -> ManagerIdentity:
    """Tell who writes: the fieldManager, or else the program that the User-Agent names."""
    name = options.field_manager
    if not name:
        name = call.request.header("user-agent").partition("/")[0][:128] or "unknown"
    return ManagerIdentity(name, call.kind.resource.api_version, subresource)


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


async def track(
    call: Call, options: WriteOptions, live: Object | None, new: Object, subresource: str = ""
) -> Object:
    """Return the new object with managedFields that say what the write changed.

    Where the webhook of a kind fails, the managers stay as they were, and the write goes on.
    """
    manager = identify(call, options, subresource)
    versions = versions_of(call)

    def tracked() -> Object:
        return track_update(
            live,
            new,
            schema=call.kind.schema,
            manager=manager,
            now=format_time(call.backend.now()),
            reset=call.kind.reset_fields.get(subresource, ()),
            empty=empty_object(call.kind),
            versions=versions,
            is_custom=call.kind.is_custom,
        )

    if versions is None or call.kind.webhook is None:
        return tracked()
    try:
        return await versions.resolve(tracked)
    except ConversionFailed:
        return keep_managers(live, new, manager)


async def apply(
    call: Call, options: WriteOptions, live: Object | None, config: Object, subresource: str = ""
) -> Object:
    """Return the live object with a configuration applied.

    Raises:
        Conflict: other managers own fields that the configuration would change.
        BadRequest: the configuration is of another type.
        APIError: it does not fit the schema.
        Invalid: a custom object has a null where its schema allows none.
        ConversionFailed: the webhook of a kind does not convert it.
    """
    versions = versions_of(call)

    def complete(obj: Object) -> None:
        if call.kind.is_custom:
            _refuse_nulls(call, obj)
        decoded = call.kind.strategy.decode(obj).obj
        call.kind.strategy.default(decoded)
        if decoded is not obj:
            obj.clear()
            obj.update(decoded)

    def applied() -> Object:
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
            versions=versions,
            kind=call.kind.resource.kind,
        )

    if versions is None or call.kind.webhook is None:
        return applied()
    return await versions.resolve(applied)


def _refuse_nulls(call: Call, obj: Object) -> None:
    from kubewright.local.apiserver.crd.custom_strategy import CustomStrategy  # served: loaded

    strategy = call.kind.strategy
    if isinstance(strategy, CustomStrategy) and (nulls := strategy.find_nulls(obj)):
        raise call.invalid(obj["metadata"].get("name") or call.name, nulls)
