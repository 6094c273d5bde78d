"""PUT of an object, and the way every change of a stored object goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from kubewright.api.errors import APIError, Cause, Invalid
from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.apply import restore_times
from kubewright.local.apiserver.crd.violation import NO_FIELD
from kubewright.local.apiserver.exchange import Response, Verb
from kubewright.local.apiserver.field_management import track
from kubewright.local.apiserver.options import WriteOptions, parse_revision, parse_write_options
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.create import build_attributes, create_object, merge_owners
from kubewright.local.apiserver.rest.decode import (
    check_name,
    check_namespace,
    decode_body,
    metadata_of,
)
from kubewright.local.apiserver.storage import Stored
from kubewright.local.store import KeyMissing, RevisionMismatch

_ATTEMPTS = 8
_OPTIMISTIC = "metadata.resourceVersion"
_NOT_STATE = frozenset({"metadata", "kind", "apiVersion"})

Transform = Callable[[Object | None], Awaitable[Object]]
"""Makes the object to store from the stored one (None where there is none)."""


class Change(msgspec.Struct, frozen=True):
    """How an object is to be changed.

    `subresource` is `status` for a write of the status, the name of another subresource for one
    that writes through the kind's main strategy, or empty. `tracked` tells that the transform takes
    care of managedFields. `creates` lets the transform make an object where there is none.
    `ruled` tells that the transform keeps the rules itself: the kind's own, which are for writes of
    clients to the object as a whole, are not asked.
    """

    transform: Transform
    options: WriteOptions
    subresource: str = ""
    tracked: bool = False
    creates: bool = False
    ruled: bool = False
    uid: str = ""


async def update(call: Call) -> Response:
    """Replace the object, or its status, by the one in the body."""
    options = parse_write_options(call.request, "UpdateOptions")
    obj = decode_body(call, options)
    check_namespace(call, obj)
    check_name(call, obj)
    subresource = call.info.subresource

    async def replacing(_: Object | None) -> Object:
        return obj

    change = Change(
        transform=replacing,
        options=options,
        subresource=subresource,
        creates=call.kind.strategy.allow_create_on_update and not subresource,
        uid=metadata_of(obj).get("uid") or "",
    )
    raw, created = await change_object(call, change)
    return call.answer(201 if created else 200, raw)


async def change_object(call: Call, change: Change) -> tuple[bytes, bool]:
    """Change the object that the call names; return its JSON text and whether it was created.

    A write that loses a race is tried again on the newer object, unless the new object insists on a
    resourceVersion.

    Raises:
        NotFound: there is none, and the change may not create it.
        Conflict: the object is at another version than the change insists on.
        Invalid: the result breaks a rule of the kind.
    """
    for _ in range(_ATTEMPTS):
        current = await call.storage.get(call.namespace, call.name)
        if current is None:
            if not change.creates:
                raise call.not_found()
            return await _create(call, change), True
        try:
            return await _change_once(call, change, current), False
        except (RevisionMismatch, KeyMissing):
            continue
    raise call.conflict()


async def _create(call: Call, change: Change) -> bytes:
    call.authorize(Verb.CREATE)
    obj = await change.transform(None)
    metadata = metadata_of(obj)
    if metadata.get("uid"):
        raise call.conflict(_uid_problem(call, metadata["uid"], ""))
    metadata.pop("resourceVersion", None)
    return await create_object(call, change.options, obj, tracked=change.tracked)


async def _change_once(call: Call, change: Change, current: Stored) -> bytes:
    strategy = call.kind.strategy
    old = current.object()
    if change.uid and change.uid != old["metadata"].get("uid"):
        raise call.conflict(_uid_problem(call, change.uid, old["metadata"].get("uid", "")))
    new = _copy(await change.transform(current.object()))
    strategy.settle(new)
    merge_owners(call, new)
    _restore_metadata(new, old)
    if not change.tracked:
        new = await track(call, change.options, old, new, change.subresource)
    if old["metadata"].get("deletionTimestamp"):
        # What a client writes there counts for managedFields only (rest.BeforeUpdate).
        new["metadata"]["deletionTimestamp"] = old["metadata"]["deletionTimestamp"]
    attributes = build_attributes(call, change.options, new, old, change.subresource)
    await call.admission.mutate(attributes)
    new = attributes.obj or new
    _check_version(call, new, old)
    if not change.ruled:
        _prepare(call, change, new, old)
        is_status = change.subresource == "status"
        validate = strategy.validate_status_update if is_status else strategy.validate_update
        causes = validate(new, old)
        if not causes or (call.kind.is_custom and not _are_rules_skipped(causes)):
            # Expression rules warn while they validate: also when something else is wrong.
            call.request.warnings += strategy.warnings(new, old)
        if causes:
            raise call.invalid(call.name, causes)
    attributes.obj = new
    await call.admission.validate(attributes)
    return await _store(call, change, current, restore_times(old, new), old)


def _are_rules_skipped(causes: list[Cause]) -> bool:
    """Tell whether an object was too wrong for its expression rules, as a cause then says."""
    return any(cause.field == NO_FIELD for cause in causes)


def _copy(obj: Object) -> Object:
    return {**obj, "metadata": dict(metadata_of(obj))}


def _restore_metadata(new: Object, old: Object) -> None:
    """Fill in what only the server knows and a client may leave out (ValidateObjectMetaUpdate)."""
    fresh, live = new["metadata"], old["metadata"]
    if not fresh.get("uid") and "uid" in live:
        fresh["uid"] = live["uid"]
    for field in ("creationTimestamp", "generation"):
        _set(fresh, field, live.get(field))
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if fresh.get(field) is None and live.get(field) is not None:
            fresh[field] = live[field]
    fresh.pop("selfLink", None)


def _check_version(call: Call, new: Object, old: Object) -> None:
    metadata = new["metadata"]
    version = metadata.get("resourceVersion") or ""
    if version in ("", "0"):
        if not call.kind.strategy.allow_unconditional_update:
            cause = Cause(
                "FieldValueInvalid",
                "Invalid value: 0: must be specified for an update",
                _OPTIMISTIC,
            )
            resource = call.kind.resource
            raise Invalid.of(resource.group, resource.plural, call.name, [cause])
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        return
    try:
        revision = parse_revision(version)
    except ValueError as error:
        raise APIError(str(error).partition('": ')[2], None) from None
    if str(revision) != old["metadata"]["resourceVersion"]:
        raise call.conflict()


def _prepare(call: Call, change: Change, new: Object, old: Object) -> None:
    strategy = call.kind.strategy
    metadata, live = new["metadata"], old["metadata"]
    if change.subresource == "status":
        strategy.prepare_for_status_update(new, old)
        return
    strategy.prepare_for_update(new, old)
    if (
        strategy.has_generation
        and metadata.get("generation") == live.get("generation")
        and _state(new, strategy.has_status) != _state(old, strategy.has_status)
    ):
        new["metadata"]["generation"] = int(live.get("generation") or 0) + 1


def _state(obj: Object, has_status: bool) -> Object:
    return {
        key: value
        for key, value in obj.items()
        if key not in _NOT_STATE and not (has_status and key == "status")
    }


def _set(metadata: Object, field: str, value: object) -> None:
    if value is None:
        metadata.pop(field, None)
    else:
        metadata[field] = value


async def _store(call: Call, change: Change, current: Stored, new: Object, old: Object) -> bytes:
    if is_finished(call, new):
        if not change.options.dry_run:
            call.storage.delete(current)
        return call.storage.encode(new)
    if new == old:
        return current.raw
    if change.options.dry_run:
        return await call.storage.rehearse(new)
    return (await call.storage.replace(current, new)).raw


def is_finished(call: Call, obj: Object) -> bool:
    """Tell whether an object that is being deleted waits for nothing more."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
        return False
    if call.kind.resource.plural == "namespaces" and not call.kind.resource.group:
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _uid_problem(call: Call, wanted: str, found: str) -> str:
    plural, group = call.kind.resource.plural, call.kind.resource.group
    key = f"/registry/{f'{group}/' if call.kind.is_custom else ''}{plural}/"
    key += f"{call.namespace}/{call.name}" if call.namespace else call.name
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object "
        f"meta: {found}"
    )
