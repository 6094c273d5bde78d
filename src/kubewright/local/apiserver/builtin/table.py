"""Pieces of Table rows: columns that many kinds share, ages, lists cut short."""

from __future__ import annotations

from datetime import datetime

from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.apiserver.kind import Column

NAME = Column("Name", "string", "name")
AGE = Column("Age")
CREATED_AT = Column("Created At", "date")
NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def format_age(obj: Object, now: datetime) -> str:
    """Write how long ago an object was created."""
    return format_since(obj["metadata"].get("creationTimestamp"), now)


def format_since(time: str | None, now: datetime) -> str:
    """Write how long ago a time was, `<unknown>` for none."""
    if not time:
        return UNKNOWN
    return format_duration(int((now - parse_time(time)).total_seconds()))


def format_duration(seconds: int) -> str:
    """Write a duration in one or two units, finer the shorter it is (`duration.HumanDuration`)."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two_units(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two_units(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two_units(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two_units(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two_units(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return (
        f"{seconds // large}{large_unit}{rest}{small_unit}"
        if rest
        else f"{seconds // large}{large_unit}"
    )


def column(name: str, type_: str = "string", *, wide: bool = False) -> Column:
    """Build a column; `wide` ones show with `-o wide`."""
    return Column(name, type_, priority=1 if wide else 0)


def format_labels(labels: dict[str, str] | None) -> str:
    """Write labels as a selector; `<none>` for none."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def format_selector(selector: Object | None) -> str:
    """Write a LabelSelector as text (`metav1.FormatLabelSelector`)."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [_format_requirement(item) for item in selector.get("matchExpressions") or ()]
    return ",".join(sorted(terms)) or NONE


def _format_requirement(item: Object) -> str:
    key, values = item.get("key", ""), ",".join(sorted(item.get("values") or ()))
    match item.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
    return str(key)


def container_cells(template: Object) -> tuple[str, str]:
    """Return the names and the images of the containers of a pod template, for two columns."""
    containers = (template.get("spec") or {}).get("containers") or []
    names = ",".join(container.get("name", "") for container in containers)
    return names, ",".join(container.get("image", "") for container in containers)
