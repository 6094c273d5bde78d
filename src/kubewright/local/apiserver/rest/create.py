"""POST to a collection: a new object."""

from __future__ import annotations

from kubewright.api.errors import AlreadyExists, APIError
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.exchange import Response
from kubewright.local.apiserver.field_management import track
from kubewright.local.apiserver.options import WriteOptions, parse_write_options
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.decode import check_namespace, decode_body, metadata_of
from kubewright.local.store import KeyExists

_NAME_ATTEMPTS = 8
_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in "
    "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
    "UID(s) observed: "
)
_SERVERS_OWN = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


async def create(call: Call) -> Response:
    """Create the object in the body and answer with it as it is stored."""
    options = parse_write_options(call.request, "CreateOptions")
    obj = decode_body(call, options)
    check_namespace(call, obj)
    raw = await create_object(call, options, obj, tracked=False)
    return call.answer(201, raw)


async def create_object(call: Call, options: WriteOptions, obj: Object, *, tracked: bool) -> bytes:
    """Store a new, decoded and defaulted object and return its JSON text.

    `tracked` tells that its managedFields are right already (it was applied).

    Raises:
        AlreadyExists: the name is taken.
        Invalid: the object breaks a rule of its kind.
        APIError: admission refuses it.
    """
    prefix = str((obj.get("metadata") or {}).get("generateName") or "")
    generated = bool(prefix) and not obj["metadata"].get("name")
    attempts = _NAME_ATTEMPTS if generated else 1
    for attempt in range(attempts):
        if generated:
            obj["metadata"]["name"] = call.backend.generate_name(prefix)
        try:
            return await _create_once(call, options, dict(obj), tracked=tracked)
        except AlreadyExists:
            if attempt + 1 == attempts:
                raise
    raise AssertionError("unreachable")


async def _create_once(call: Call, options: WriteOptions, obj: Object, *, tracked: bool) -> bytes:
    strategy = call.kind.strategy
    obj["metadata"] = dict(metadata_of(obj))
    for field in _SERVERS_OWN:
        obj["metadata"].pop(field, None)
    merge_owners(call, obj)
    if not tracked:
        obj = await track(call, options, None, obj)
    attributes = build_attributes(call, options, obj)
    await call.admission.mutate(attributes)
    obj = attributes.obj or obj
    _fill_system_fields(call, obj)
    metadata = obj["metadata"]
    strategy.prepare_for_create(obj)
    if strategy.has_generation:
        metadata["generation"] = 1
    name = metadata.get("name") or ""
    if causes := strategy.validate(obj):
        raise call.invalid(name, causes)
    call.request.warnings += strategy.warnings(obj, None)
    attributes.obj = obj
    await call.admission.validate(attributes)
    if metadata.get("resourceVersion"):
        raise APIError("resourceVersion should not be set on objects to be created", None)
    strategy.settle(obj)
    return await _store(call, options, obj, name)


def merge_owners(call: Call, obj: Object) -> None:
    """Drop owner references that are there twice, in place, and warn of them."""
    references = obj["metadata"].get("ownerReferences") or ()
    if len(references) < 2:
        return
    kept: list[Object] = []
    repeated: dict[str, None] = {}
    for reference in references:
        if reference in kept:
            repeated[str(reference.get("uid"))] = None
        else:
            kept.append(reference)
    if repeated:
        obj["metadata"]["ownerReferences"] = kept
        call.request.warnings.append(f"{_REPEATED_OWNERS}{', '.join(repeated)}")


async def _store(call: Call, options: WriteOptions, obj: Object, name: str) -> bytes:
    key = call.storage.key(call.namespace, name)
    if options.dry_run:
        obj["metadata"].pop("resourceVersion", None)
        text = await call.storage.rehearse(obj)
        if call.storage.stored_meta(key) is not None:
            raise _exists(call, name)
        return text
    try:
        return (await call.storage.add(key, obj)).raw
    except KeyExists:
        raise _exists(call, name) from None


def _fill_system_fields(call: Call, obj: Object) -> None:
    metadata = metadata_of(obj)
    # As kube-apiserver writes it: what an object is comes before labels and owners.
    head = {key: metadata[key] for key in ("name", "generateName", "namespace") if key in metadata}
    obj["metadata"] = {
        **head,
        "uid": call.backend.new_uid(),
        "creationTimestamp": format_time(call.backend.now()),
        **metadata,
    }


def build_attributes(
    call: Call,
    options: WriteOptions,
    obj: Object,
    old: Object | None = None,
    subresource: str = "",
) -> Attributes:
    """Describe a creation or an update to admission."""
    return Attributes(
        operation="CREATE" if old is None else "UPDATE",
        kind=call.kind,
        namespace=call.namespace,
        name=(obj.get("metadata") or {}).get("name") or call.name,
        obj=obj,
        old=old,
        user=call.request.user,
        subresource=subresource,
        dry_run=options.dry_run,
        options=_options(options, "CreateOptions" if old is None else "UpdateOptions"),
        warnings=call.request.warnings,
    )


def _options(options: WriteOptions, kind: str) -> Object:
    """Return a write's options as admission webhooks see them."""
    shown: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        shown["dryRun"] = ["All"]
    if options.field_manager:
        shown["fieldManager"] = options.field_manager
    return shown


def _exists(call: Call, name: str) -> AlreadyExists:
    resource = call.kind.resource
    error = AlreadyExists.of(resource.group, resource.plural, name)
    existing = call.storage.stored_meta(call.storage.key(call.namespace, name))
    if existing is not None and existing.is_deleting:
        error.message = f"object is being deleted: {error.message}"
    return error
