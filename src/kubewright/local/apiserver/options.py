"""The options of requests: parsed from the query, or from a body for deletions, and checked."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from kubewright.api.errors import BadRequest, Cause, Invalid
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Request
from kubewright.local.apiserver.selectors import (
    FieldSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)

_INTEGER = re.compile(r"[-+]?\d+")
_GROUP = "meta.k8s.io"


class FieldValidation(enum.StrEnum):
    """What happens to unknown and duplicate fields of a body."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


class ListOptions(msgspec.Struct, frozen=True):
    """Options of list, watch and deletecollection."""

    labels: LabelSelector
    fields: FieldSelector
    watch: bool = False
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int | None = None
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None


class WriteOptions(msgspec.Struct, frozen=True):
    """Options of create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = FieldValidation.WARN
    force: bool | None = None


class DeleteOptions(msgspec.Struct, frozen=True):
    """Options of delete and deletecollection."""

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    uid: str | None = None
    resource_version: str | None = None


def parse_list_options(request: Request, *, watch: bool) -> ListOptions:
    """Read list or watch options.

    Raises:
        BadRequest: a number or a selector cannot be read.
        Invalid: options contradict each other.
    """
    initial = request.query.get("sendInitialEvents")
    timeout = request.param("timeoutSeconds")
    options = ListOptions(
        labels=parse_label_selector(request.param("labelSelector")),
        fields=parse_field_selector(request.param("fieldSelector")),
        watch=watch,
        resource_version=request.param("resourceVersion"),
        resource_version_match=request.param("resourceVersionMatch"),
        limit=max(_integer(request.param("limit") or "0"), 0),
        continue_token=request.param("continue"),
        timeout_seconds=_integer(timeout) if timeout else None,
        allow_bookmarks=request.flag("allowWatchBookmarks"),
        send_initial_events=request.flag("sendInitialEvents") if initial else None,
    )
    causes = _watch_causes(options) if watch else _list_causes(options)
    if causes:
        raise Invalid.of(_GROUP, "ListOptions", "", causes)
    return options


def _list_causes(options: ListOptions) -> list[Cause]:
    causes: list[Cause] = []
    match = options.resource_version_match
    if match:
        if not options.resource_version:
            causes.append(
                _match("resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.continue_token:
            causes.append(_match("resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            supported = ("Exact", "NotOlderThan", "")
            causes.append(_unsupported("resourceVersionMatch", match, supported))
        if match == "Exact" and options.resource_version == "0":
            causes.append(
                _match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if options.send_initial_events is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_causes(options: ListOptions) -> list[Cause]:
    causes: list[Cause] = []
    match = options.resource_version_match
    if options.send_initial_events is not None and match != "NotOlderThan":
        causes.append(
            _match("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if match and options.send_initial_events is None:
        causes.append(
            _match(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        )
    if match and match != "NotOlderThan":
        causes.append(_unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    if options.continue_token:
        causes.append(_match("resourceVersionMatch is forbidden when continue is provided"))
    return causes


def parse_write_options(request: Request, kind: str, *, apply: bool = False) -> WriteOptions:
    """Read the options of a write; `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.

    Raises:
        Invalid: a value is unknown, or an apply names no manager.
    """
    if not request.query and not apply:
        return WriteOptions()
    query = request.query
    causes: list[Cause] = []
    force = request.flag("force") if query.get("force") else None
    manager = request.param("fieldManager")
    if apply and not manager:
        causes.append(
            Cause(
                "FieldValueRequired", "Required value: is required for apply patch", "fieldManager"
            )
        )
    if force is not None and kind == "PatchOptions" and not apply:
        causes.append(_forbidden("force", "may not be specified for non-apply patch"))
    causes += _manager_causes(manager)
    causes += dry_run_causes(query.get("dryRun") or ())
    validation = request.param("fieldValidation")
    if validation and validation not in list(FieldValidation):
        supported = ("", "Ignore", "Strict", "Warn")
        causes.append(_unsupported("fieldValidation", validation, supported))
    if causes:
        raise Invalid.of(_GROUP, kind, "", causes)
    return WriteOptions(
        dry_run="dryRun" in query,
        field_manager=manager,
        field_validation=FieldValidation(validation or "Warn"),
        force=force,
    )


def _manager_causes(manager: str) -> list[Cause]:
    causes: list[Cause] = []
    if len(manager.encode()) > 128:
        message = "Too long: may not be more than 128 bytes"
        causes.append(Cause("FieldValueTooLong", message, "fieldManager"))
    for index, character in enumerate(manager):
        if not character.isprintable():
            message = (
                f'Invalid value: "{manager}": invalid character {character!r} (at position {index})'
            )
            causes.append(Cause("FieldValueInvalid", message, "fieldManager"))
    return causes


def dry_run_causes(values: Sequence[Any]) -> list[Cause]:
    """Return what is wrong with the values of `dryRun`; only `All` is known."""
    if all(value == "All" for value in values):
        return []
    shown = json.dumps(list(values), separators=(",", ":"))
    message = f'Unsupported value: {shown}: supported values: "All"'
    return [Cause("FieldValueNotSupported", message, "dryRun")]


def parse_delete_options(request: Request, body: Object | None) -> DeleteOptions:
    """Read the options of a deletion from its body, or from the query where there is none.

    Raises:
        BadRequest: a value cannot be read.
        Invalid: a value is unknown, or options contradict each other.
    """
    source = body if body is not None else _delete_query(request)
    preconditions = source.get("preconditions")
    if preconditions is None:
        preconditions = {}
    if not isinstance(preconditions, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(preconditions), "number")
        raise BadRequest(
            f"json: cannot unmarshal {found} into Go struct field DeleteOptions.preconditions of "
            "type v1.Preconditions",
            None,
        )
    policy = source.get("propagationPolicy")
    orphan = source.get("orphanDependents")
    causes: list[Cause] = []
    if policy is not None and orphan is not None:
        message = (
            f'Invalid value: "{policy}": orphanDependents and deletionPropagation '
            "cannot be both set"
        )
        causes.append(Cause("FieldValueInvalid", message, "propagationPolicy"))
    if policy not in (None, "Foreground", "Background", "Orphan"):
        supported = ("Foreground", "Background", "Orphan", "nil")
        causes.append(_unsupported("propagationPolicy", policy, supported))
    dry_run = source.get("dryRun") or ()
    causes += dry_run_causes(dry_run)
    if causes:
        raise Invalid.of(_GROUP, "DeleteOptions", "", causes)
    return DeleteOptions(
        dry_run=bool(dry_run),
        grace_period_seconds=source.get("gracePeriodSeconds"),
        propagation_policy=policy,
        orphan_dependents=orphan,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )


def _delete_query(request: Request) -> Object:
    source: Object = {}
    if grace := request.param("gracePeriodSeconds"):
        source["gracePeriodSeconds"] = _integer(grace)
    if policy := request.param("propagationPolicy"):
        source["propagationPolicy"] = policy
    if request.query.get("orphanDependents"):
        source["orphanDependents"] = request.flag("orphanDependents")
    if request.query.get("dryRun"):
        source["dryRun"] = request.query["dryRun"]
    return source


def parse_revision(text: str) -> int:
    """Read a resourceVersion.

    Raises:
        ValueError: it is none; the text is that of the API server.
    """
    if text.isdecimal() and text.isascii():
        return int(text)
    raise ValueError(
        f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
        "invalid syntax"
    )


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax', None)
    return int(text)


def _match(message: str) -> Cause:
    return _forbidden("resourceVersionMatch", message)


def _forbidden(field: str, message: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {message}", field)


def _unsupported(field: str, value: object, supported: Sequence[str]) -> Cause:
    listed = ", ".join(f'"{name}"' for name in supported)
    message = f"Unsupported value: {json.dumps(value)}: supported values: {listed}"
    return Cause("FieldValueNotSupported", message, field)
