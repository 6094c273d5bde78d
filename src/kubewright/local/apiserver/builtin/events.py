"""Rules of Event in both groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_qualified
from kubewright.local.apiserver.builtin.conversion import to_core_event, with_core_names
from kubewright.local.apiserver.builtin.rules import Rules, Table, text_at
from kubewright.local.apiserver.builtin.table import column, format_since
from kubewright.local.apiserver.field_error import invalid, required
from kubewright.local.apiserver.kind import Column
from kubewright.local.apiserver.objectmeta import IMMUTABLE, path_segment

_TYPES = ("Normal", "Warning")
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_MISMATCH = "does not match event.namespace"


def _validate_legacy(event: Object) -> list[Cause]:
    """Check what both groups ask of an event, given in the shape of core/v1."""
    causes = _validate_namespace(event)
    if not event.get("eventTime"):
        return causes
    controller = event.get("reportingComponent") or ""
    if not controller:
        causes.append(required("reportingController"))
    else:
        causes += check_qualified(controller, "reportingController")
    for key in ("reportingInstance", "action", "reason"):
        value = event.get(key) or ""
        if not value:
            causes.append(required(key))
        elif len(value) > 128:
            causes.append(invalid(key, "", "can have at most 128 characters"))
    if len(event.get("message") or "") > 1024:
        causes.append(invalid("message", "", "can have at most 1024 characters"))
    return causes


def _validate_namespace(event: Object) -> list[Cause]:
    namespace = (event.get("involvedObject") or {}).get("namespace") or ""
    own = event["metadata"].get("namespace") or ""
    if namespace == own or (not namespace and own == "default"):
        return []
    return [invalid("involvedObject.namespace", namespace, _MISMATCH)]


def _validate_new_event(event: Object) -> list[Cause]:
    core = with_core_names(event)
    causes = _validate_legacy(core)
    if core["metadata"].get("resourceVersion"):
        return causes
    causes += _validate_series(core)
    if not core.get("eventTime"):
        causes.append(required("eventTime"))
    kind = core.get("type") or ""
    if kind not in _TYPES:
        causes.append(invalid("type", "", f"has invalid value: {kind}"))
    return causes + [
        invalid(key, "", "needs to be unset")
        for key in ("firstTimestamp", "lastTimestamp", "count", "source")
        if core.get(key)
    ]


def _validate_series(event: Object) -> list[Cause]:
    series, causes = event.get("series"), []
    if series is None:
        return []
    if (series.get("count") or 0) < 2:
        causes.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(required("series.lastObservedTime"))
    return causes


_IMMUTABLE = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def _validate_new_update(event: Object, old: Object) -> list[Cause]:
    new, before = with_core_names(event), with_core_names(old)
    names = {"reportingComponent": "reportingController"}
    causes = _validate_series(new) if new.get("series") != before.get("series") else []
    return causes + [
        invalid(names.get(key, key), new.get(key), IMMUTABLE)
        for key in _IMMUTABLE
        if (new.get(key) or None) != (before.get(key) or None)
    ]


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if component and host else component


def _cells(event: Object, now: datetime) -> list[Any]:
    event = to_core_event(event)
    first = format_since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = event.get("lastTimestamp")
    shown = format_since(last, now) if last else first
    count = event.get("count") or 1
    if series := event.get("series"):
        shown = format_since(series.get("lastObservedTime"), now)
        count = series.get("count") or 0
    subject = event.get("involvedObject") or {}
    kind, name = (subject.get("kind") or "").lower(), subject.get("name")
    return [
        shown,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        subject.get("fieldPath", ""),
        _source(event),
        (event.get("message") or "").strip(),
        first,
        count,
        event["metadata"].get("name", ""),
    ]


def _reads(read: Callable[[Object], str]) -> Callable[[Object], str]:
    return lambda event: read(to_core_event(event))


def _event_source(event: Object) -> str:
    core = to_core_event(event)
    component = (core.get("source") or {}).get("component")
    return str(component or core.get("reportingComponent") or "")


def _fields(subject: str, controller: str) -> Mapping[str, Callable[[Object], str]]:
    fields = {f"{subject}.{key}": _reads(text_at("involvedObject", key)) for key in _REFERENCE}
    fields |= {
        "reason": text_at("reason"),
        controller: _reads(text_at("reportingComponent")),
        "source": _event_source,
        "type": text_at("type"),
    }
    return fields


_TABLE = Table(
    (
        column("Last Seen"),
        column("Type"),
        column("Reason"),
        column("Object"),
        column("Subobject", wide=True),
        column("Source", wide=True),
        column("Message"),
        column("First Seen", wide=True),
        column("Count", wide=True),
        Column("Name", "string", "name", priority=1),
    ),
    _cells,
    names_first=False,
)
_CORE_EVENT = Rules(
    name_rule=path_segment,
    allow_create_on_update=True,
    validate=_validate_legacy,
    fields=_fields("involvedObject", "reportingComponent"),
    table=_TABLE,
)
RULES: Mapping[str, Rules] = {
    "core.Event": _CORE_EVENT,
    "Event": Rules(
        name_rule=path_segment,
        allow_create_on_update=True,
        validate=_validate_new_event,
        validate_update=_validate_new_update,
        fields=_fields("regarding", "reportingController"),
        table=_TABLE,
    ),
}
