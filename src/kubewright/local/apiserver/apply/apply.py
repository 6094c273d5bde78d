"""Server-side apply of a configuration, and tracking of every other write (KEP-555).

Both return the object with its managedFields; neither changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from kubewright.api.errors import APIError, BadRequest
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.apply.conflict import ApplyConflicts
from kubewright.local.apiserver.apply.field_set import FieldSet
from kubewright.local.apiserver.apply.last_applied import (
    KUBECTL,
    build_forgiven_fields,
    has_last_applied,
    update_last_applied,
)
from kubewright.local.apiserver.apply.managers import (
    Manager,
    ManagerIdentity,
    Managers,
    Operation,
    cap_update_managers,
    parse_managers,
    read_managers,
    write_managers,
)
from kubewright.local.apiserver.apply.path_element import PathElementError
from kubewright.local.apiserver.apply.typed_value import is_typed, validate_value
from kubewright.local.apiserver.apply.updater import Updater, Versions
from kubewright.local.apiserver.schema.json_value import copy_value, is_equal
from kubewright.local.apiserver.schema.node import SchemaNode

Defaulter = Callable[[Object], None]

_BEFORE_FIRST_APPLY = "before-first-apply"
_NOTHING: Object = {}


def apply_object(
    live: Object | None,
    config: Object,
    *,
    schema: SchemaNode,
    manager: ManagerIdentity,
    now: str,
    force: bool,
    default: Defaulter,
    reset: Sequence[Sequence[str]] = (),
    empty: Object = _NOTHING,
    versions: Versions | None = None,
    kind: str = "",
) -> Object:
    """Apply a configuration to the live object, or to nothing where there is none.

    The result is not validated. Where nothing changed it equals the live object, times included.

    Args:
        live: the stored object in the manager's version.
        config: the request's body.
        schema: the schema of that version.
        manager: who applies.
        now: the time for a changed entry.
        force: take fields from other managers instead of refusing.
        default: makes a merged object what the kind stores, in place: decodes it, so that nulls
            that mean nothing go and quantities become canonical, and fills in defaults. Called
            only where the merge changed something.
        reset: paths of fields that this endpoint may not own.
        empty: what an object of the kind holds when nothing is set, as a decoded `{}` has it. It
            is what a new object's fields are told from; custom kinds hold nothing.
        versions: converts to the versions of other managers; without it all are taken as alike.
        kind: the kind that must be applied; "" takes that of the live object.

    Raises:
        BadRequest: the body is of another type or names managers.
        APIError: 500 without a reason, as kube-apiserver answers: the body does not fit the schema.
        Conflict: other managers own fields that would change; the causes name them.
    """
    _check_config(config, manager, kind or (live or {}).get("kind") or "")
    faults = validate_value(config, schema)
    if faults:
        raise APIError(_typed_error(config, faults), None)
    managers = read_managers(_entries(live))
    base: Object = _without_managers(live) if live is not None else {}
    updater = Updater.of(schema, manager.api_version, reset, versions)
    if not managers and live is not None:
        managers = _record_existing(updater, base, empty, manager, now)
    me = _manager(manager, "Apply")
    merged, managers = _merge(updater, base, config, managers, me, force=force)
    changed = live is None or not is_equal(base, merged)
    # The result shares nothing with the live object: what prepares it for storage changes it.
    merged = copy_value(merged)
    if changed:
        default(merged)
        _set_time(managers, me, now)
    if me.name == KUBECTL and has_last_applied(merged):
        merged = update_last_applied(merged, config)
    result = _with_managers(merged, managers)
    return result if live is None else restore_times(live, result)


def track_update(
    live: Object | None,
    new: Object,
    *,
    schema: SchemaNode,
    manager: ManagerIdentity,
    now: str,
    reset: Sequence[Sequence[str]] = (),
    empty: Object = _NOTHING,
    versions: Versions | None = None,
    is_custom: bool = False,
) -> Object:
    """Return the new object with managedFields that say what this write set.

    It never fails: an object whose managers cannot be read starts anew, and a custom object that
    does not fit its schema keeps the managers that it had.

    Args:
        live: the stored object in the manager's version; None where the write creates it.
        new: what is to be stored, defaulted. Its own managedFields count on the main resource:
            readable ones replace the live object's, an empty list or `[{}]` resets them.
        schema: the schema of that version.
        manager: who writes.
        now: the time for a changed entry.
        reset: paths of fields that this endpoint may not own.
        empty: what an object of the kind holds when nothing is set, as a decoded `{}` has it. It
            is what a new object's fields are told from; custom kinds hold nothing.
        versions: converts to the versions of other managers; without it all are taken as alike.
        is_custom: the schema has not been checked yet, as decoding does for built-in kinds.
    """
    managers = _decode_managers(live, new, manager)
    new = _without_managers(new)
    if is_custom and not is_typed(new, schema):
        return _with_managers(new, managers)
    if live is not None and not managers:
        # Objects whose managers were cleared are tracked again from their first apply.
        return new
    base = empty if live is None else _without_managers(live)
    updater = Updater.of(schema, manager.api_version, reset, versions)
    managers = _update(updater, base, new, managers, _manager(manager, "Update"), now)
    result = _with_managers(new, managers)
    return result if live is None else restore_times(live, result)


def keep_managers(live: Object | None, new: Object, manager: ManagerIdentity) -> Object:
    """Return the new object with the managers that it had, for a write that cannot be tracked."""
    return _with_managers(new, _decode_managers(live, new, manager))


def restore_times(live: Object, new: Object) -> Object:
    """Return the live managedFields to an object that differs from it in their times alone.

    Call it once more when admission and validation are done: an object that is then equal to the
    stored one is not written.
    """
    before, after = _entries(live), _entries(new)
    if before is None or after is None or len(before) != len(after) or before == after:
        return new
    if not all(map(_is_same_but_for_time, before, after)):
        return new
    if not is_equal(_without_managers(live), _without_managers(new)):
        return new
    return {**new, "metadata": {**new["metadata"], "managedFields": before}}


def _is_same_but_for_time(before: Object, after: Object) -> bool:
    return before is after or (
        {k: v for k, v in before.items() if k != "time"}
        == {k: v for k, v in after.items() if k != "time"}
    )


def _check_config(config: Object, manager: ManagerIdentity, kind: str) -> None:
    gvk = GroupVersionKind.of(config)
    expected = GroupVersionKind.parse(manager.api_version, kind or gvk.kind)
    if gvk != expected:
        raise BadRequest(f"invalid object type: {_display(gvk)}", None)
    if _entries(config) is not None:
        raise BadRequest("metadata.managedFields must be nil", None)


def _display(gvk: GroupVersionKind) -> str:
    return f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"


def _typed_error(config: Object, faults: list[str]) -> str:
    metadata = config.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    what = f"{name}; {_display(GroupVersionKind.of(config))}"
    text = faults[0] if len(faults) == 1 else "\n  ".join(["errors:", *faults])
    return f"failed to create typed patch object ({what}): {text}"


def _manager(identity: ManagerIdentity, operation: Operation) -> Manager:
    return Manager(
        name=identity.name or "unknown",
        operation=operation,
        api_version=identity.api_version,
        subresource=identity.subresource,
        time="",
        fields=FieldSet(),
    )


def _record_existing(
    updater: Updater, live: Object, empty: Object, manager: ManagerIdentity, now: str
) -> Managers:
    first = replace(_manager(manager, "Update"), name=_BEFORE_FIRST_APPLY)
    return _update(updater, empty, live, {}, first, now)


def _update(
    updater: Updater, live: Object, new: Object, managers: Managers, me: Manager, now: str
) -> Managers:
    fields, managers = updater.update(live, new, managers)
    if fields:
        # What this write changed joins what the manager set before; the entry's time moves.
        mine = managers.get(me.identity, me)
        owned = fields.union(mine.fields)
        managers[me.identity] = replace(mine, fields=owned, time=now, source=None)
    return cap_update_managers(managers)


def _merge(
    updater: Updater,
    live: Object,
    config: Object,
    managers: Managers,
    me: Manager,
    *,
    force: bool,
) -> tuple[Object, Managers]:
    last = managers.get(me.identity)
    if last is not None:
        me = replace(me, time=last.time)
    try:
        return updater.apply(live, config, managers, me, force=force)
    except ApplyConflicts as conflicts:
        if me.name == KUBECTL:
            forgiven = build_forgiven_fields(live, updater.schema, me.api_version)
            conflicts = conflicts.without(forgiven) if forgiven else conflicts
        if conflicts.conflicts:
            raise conflicts.to_error() from None
    return updater.apply(live, config, managers, me, force=True)


def _set_time(managers: Managers, me: Manager, now: str) -> None:
    mine = managers.get(me.identity)
    if mine is not None:
        managers[me.identity] = replace(mine, time=now, source=None)


def _decode_managers(live: Object | None, new: Object, manager: ManagerIdentity) -> Managers:
    live_entries, entries = _entries(live), _entries(new)
    if manager.subresource or entries is None or entries == live_entries:
        return read_managers(live_entries)
    if entries == [] or entries == [{}]:
        return {}
    try:
        return parse_managers(entries) or read_managers(live_entries)
    except PathElementError:
        return read_managers(live_entries)


def _entries(obj: Object | None) -> Any:
    metadata = obj.get("metadata") if obj else None
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def _without_managers(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    metadata = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _with_managers(obj: Object, managers: Managers) -> Object:
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    if managers:
        metadata["managedFields"] = write_managers(managers)
    return {**obj, "metadata": metadata}
