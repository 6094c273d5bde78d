"""Who owns which fields: the door to `apply` for the verbs."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.apply.apply import apply_object, track_update
from kubewright.local.apiserver.apply.managers import ManagerIdentity
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.options import WriteOptions
from kubewright.local.apiserver.rest.call import Call

_EMPTY: dict[str, Object] = {}


def identify(call: Call, options: WriteOptions, subresource: str = "") -> ManagerIdentity:
    """Tell who writes: the fieldManager, or else the program that the User-Agent names."""
    name = options.field_manager
    if not name:
        name = call.request.header("user-agent").partition("/")[0][:128] or "unknown"
    return ManagerIdentity(name, call.kind.resource.api_version, subresource)


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
    )


def apply(
    call: Call, options: WriteOptions, live: Object | None, config: Object, subresource: str = ""
) -> Object:
    """Return the live object with a configuration applied.

    Raises:
        Conflict: other managers own fields that the configuration would change.
        BadRequest: the configuration is of another type.
        APIError: it does not fit the schema.
    """

    def complete(obj: Object) -> None:
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
        kind=call.kind.resource.kind,
    )
