"""The scale subresource: an autoscaling/v1 Scale over whatever has replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from kubewright.api.errors import Cause, InternalError, Invalid, StatusDetails
from kubewright.api.resource import Object, Resource
from kubewright.api.time import format_time
from kubewright.local.apiserver.apply.apply import apply_object, track_update
from kubewright.local.apiserver.apply.managers import ManagerIdentity
from kubewright.local.apiserver.apply.scale import (
    SCALE_VERSION,
    build_parent_managers,
    build_scale_managers,
)
from kubewright.local.apiserver.builtin.registry import builtin_kinds
from kubewright.local.apiserver.exchange import Response, encode_json
from kubewright.local.apiserver.field_management import identify
from kubewright.local.apiserver.kind import ScaleMapping, ServedKind
from kubewright.local.apiserver.options import WriteOptions, parse_write_options
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.decode import (
    check_name,
    check_namespace,
    decode_body,
    metadata_of,
)
from kubewright.local.apiserver.rest.patch import (
    APPLY_PATCH,
    build_patch,
    decode_patched,
    patch_type,
    read_apply,
)
from kubewright.local.apiserver.rest.update import Change, change_object
from kubewright.local.apiserver.schema.node import SchemaNode
from kubewright.local.apiserver.selectors import format_label_selector
from kubewright.local.apiserver.storage import decode_json

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_DEFINITION = "io.k8s.api.autoscaling.v1.Scale"

ChangeScale = Callable[[Object], Object]
"""Makes the Scale that is wanted, managedFields included, from the one that is."""


async def get_scale(call: Call) -> Response:
    """Answer with the object's Scale."""
    return _answer(call, (await call.read()).object())


async def update_scale(call: Call) -> Response:
    """Set the object's replicas to those of the Scale in the body."""
    options = parse_write_options(call.request, "UpdateOptions")
    scale = decode_body(_scale_call(call), options)
    check_namespace(call, scale)
    check_name(call, scale)
    return await _write(call, options, lambda live: _track(call, options, live, scale))


async def patch_scale(call: Call) -> Response:
    """Patch or apply the object's Scale."""
    media_type = patch_type(call)
    applying = media_type == APPLY_PATCH
    options = parse_write_options(call.request, "PatchOptions", apply=applying)
    scale_call = _scale_call(call)
    if applying:
        config = read_apply(call, options)
        return await _write(call, options, lambda live: _apply(call, options, live, config))
    run, body = build_patch(scale_call, media_type)

    def patched(live: Object) -> Object:
        bare = {**live, "metadata": {**live["metadata"]}}
        bare["metadata"].pop("managedFields", None)
        scale = decode_patched(scale_call, options, run(bare), body)
        return _track(call, options, live, scale)

    return await _write(call, options, patched)


async def _write(call: Call, options: WriteOptions, change: ChangeScale) -> Response:
    mapping = _mapping(call)
    paths = _paths(call)

    async def transform(live: Object | None) -> Object:
        assert live is not None  # a scale creates nothing
        before = build_scale(call, live, strict=False)
        entries = live["metadata"].get("managedFields")
        managers = build_scale_managers(entries, paths)
        if managers:
            before["metadata"]["managedFields"] = managers
        scale = change(before)
        _check(call, scale, live)
        _put(live, mapping.spec_replicas_path, (scale.get("spec") or {}).get("replicas") or 0)
        managed = build_parent_managers(
            entries,
            metadata_of(scale).get("managedFields"),
            api_version=call.kind.resource.api_version,
            paths=paths,
        )
        live["metadata"].pop("managedFields", None)
        if managed:
            live["metadata"]["managedFields"] = managed
        return live

    what = Change(transform, options, subresource="scale", tracked=True)
    raw, _ = await change_object(call, what)
    return _answer(call, decode_json(raw))


def _track(call: Call, options: WriteOptions, live: Object, scale: Object) -> Object:
    return track_update(
        live,
        scale,
        schema=_scale_schema(),
        manager=_identify(call, options),
        now=format_time(call.backend.now()),
    )


def _apply(call: Call, options: WriteOptions, live: Object, config: Object) -> Object:
    scale = apply_object(
        live,
        config,
        schema=_scale_schema(),
        manager=_identify(call, options),
        now=format_time(call.backend.now()),
        force=bool(options.force),
        default=lambda obj: None,
        kind="Scale",
    )
    check_name(call, scale)
    check_namespace(call, scale)
    return scale


def _identify(call: Call, options: WriteOptions) -> ManagerIdentity:
    return replace(identify(call, options, "scale"), api_version=SCALE_VERSION)


def _check(call: Call, scale: Object, live: Object) -> None:
    """Check version and replicas of a Scale.

    Raises:
        Conflict: it insists on another version than the object's.
        Invalid: its replicas are negative.
    """
    version = metadata_of(scale).get("resourceVersion")
    if version and version != live["metadata"]["resourceVersion"]:
        raise call.conflict()
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        cause = Cause("FieldValueInvalid", message, "spec.replicas")
        raise Invalid.of("autoscaling", "Scale", call.name, [cause])


def build_scale(call: Call, obj: Object, *, strict: bool = True) -> Object:
    """Build the Scale of an object.

    Raises:
        InternalError: with `strict`, the object has no replicas.
    """
    mapping = _mapping(call)
    replicas = _get(obj, mapping.spec_replicas_path)
    if replicas is None and strict and call.kind.is_custom:
        problem = f'the spec replicas field "{mapping.spec_replicas_path}" does not exist'
        raise InternalError(
            f"Internal error occurred: {problem}", StatusDetails(causes=(Cause("", problem),))
        )
    status: Object = {"replicas": _get(obj, mapping.status_replicas_path) or 0}
    if selector := _selector(mapping, obj):
        status["selector"] = selector
    metadata = obj["metadata"]
    return {
        "kind": "Scale",
        "apiVersion": SCALE_VERSION,
        "metadata": {key: metadata[key] for key in _KEPT if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector(mapping: ScaleMapping, obj: Object) -> str:
    if mapping.selector_path:
        found = _get(obj, mapping.selector_path)
        return found if isinstance(found, str) else ""
    selector = (obj.get("spec") or {}).get("selector") or {}
    # A ReplicationController's selector is a plain map of labels.
    is_plain = "matchLabels" not in selector and "matchExpressions" not in selector
    return format_label_selector({"matchLabels": selector} if is_plain else selector)


def _answer(call: Call, obj: Object) -> Response:
    return call.answer_plain(200, encode_json(build_scale(call, obj)))


def _mapping(call: Call) -> ScaleMapping:
    return call.kind.scale or ScaleMapping()


def _paths(call: Call) -> dict[str, tuple[str, ...]]:
    """Return where each version of the kind has its replicas."""
    own = call.kind.stored_as
    return {
        kind.resource.api_version: tuple(kind.scale.spec_replicas_path.lstrip(".").split("."))
        for kind in call.backend.registry.kinds()
        if kind.scale and (kind.stored_as.group, kind.stored_as.plural) == (own.group, own.plural)
    }


def _scale_call(call: Call) -> Call:
    """Return the call as if the Scale itself were the resource: for decoding and patches."""
    kind = _scale_kind(call.kind)
    return replace(call, kind=kind, storage=call.backend.storage(call.kind))


def _scale_kind(parent: ServedKind) -> ServedKind:
    model = next(kind for kind in builtin_kinds() if kind.resource.kind == "Deployment")
    resource = Resource("autoscaling", "v1", "Scale", parent.resource.plural)
    return replace(
        model,
        resource=resource,
        strategy=_scale_strategy(resource),
        schema=_scale_schema(),
        definition=_DEFINITION,
    )


def _scale_strategy(resource: Resource) -> Any:
    from kubewright.local.apiserver.builtin.strategy import BuiltinStrategy

    return BuiltinStrategy(resource, _DEFINITION, has_status=True)


def _scale_schema() -> SchemaNode:
    from kubewright.local.apiserver.builtin.definitions import schema_for

    return schema_for(_DEFINITION)


def _get(obj: Object, path: str) -> Any:
    value: Any = obj
    for part in path.lstrip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _put(obj: Object, path: str, value: Any) -> None:
    *parents, leaf = path.lstrip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[leaf] = value
