"""Checks that many kinds share: numbers, choices, references, label selectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.field_error import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubewright.local.apiserver.formats import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_percent,
    check_port_name,
    check_port_number,
    check_qualified_name,
)
from kubewright.local.apiserver.objectmeta import IMMUTABLE, validate_labels

NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than 0"


def with_faults(field: str, value: Any, faults: Iterable[str]) -> list[Cause]:
    """Turn the faults of a format into causes."""
    return [invalid(field, value, fault) for fault in faults]


def check_not_negative(value: int | None, field: str) -> list[Cause]:
    """Refuse a number below zero."""
    return [invalid(field, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def check_numbers(obj: Object, keys: Iterable[str], field: str) -> list[Cause]:
    """Refuse numbers below zero in these fields of an object."""
    return [cause for key in keys for cause in check_not_negative(obj.get(key), f"{field}.{key}")]


def check_choice(
    value: str | None, supported: Iterable[str], field: str, *, needed: bool = False
) -> list[Cause]:
    """Refuse a text that is none of those supported; a missing one only where it is needed."""
    if not value:
        return [required(field)] if needed else []
    return [] if value in supported else [not_supported(field, value, supported)]


def check_label(value: str, field: str) -> list[Cause]:
    """Check a DNS label."""
    return with_faults(field, value, check_dns_label(value))


def check_subdomain(value: str, field: str) -> list[Cause]:
    """Check a DNS subdomain."""
    return with_faults(field, value, check_dns_subdomain(value))


def check_qualified(value: str, field: str) -> list[Cause]:
    """Check a label key."""
    return with_faults(field, value, check_qualified_name(value))


def check_present(obj: Object, key: str, field: str) -> list[Cause]:
    """Refuse an empty or missing field."""
    return [] if obj.get(key) else [required(f"{field}.{key}")]


def check_port(value: int | str | None, field: str) -> list[Cause]:
    """Check a port number or the name of a port."""
    if isinstance(value, str):
        return with_faults(field, value, check_port_name(value))
    return with_faults(field, value or 0, check_port_number(value or 0))


def check_unique(values: Iterable[str], field: Callable[[int], str]) -> list[Cause]:
    """Refuse a value that was there before; empty ones do not count."""
    seen: set[str] = set()
    causes = []
    for index, value in enumerate(values):
        if value and value in seen:
            causes.append(duplicate(field(index), value))
        seen.add(value)
    return causes


def check_immutable(new: Object, old: Object, keys: Iterable[str], field: str) -> list[Cause]:
    """Refuse a change of these fields."""
    prefix = f"{field}." if field else ""
    return [
        invalid(f"{prefix}{key}", new.get(key), IMMUTABLE)
        for key in keys
        if new.get(key) != old.get(key)
    ]


def check_int_or_percent(value: int | str | None, field: str) -> list[Cause]:
    """Check a number that is not negative, or a percentage."""
    if isinstance(value, str):
        return with_faults(field, value, check_percent(value))
    return check_not_negative(value, field)


def check_at_most_hundred_percent(value: int | str | None, field: str) -> list[Cause]:
    """Refuse a percentage above 100 %."""
    if isinstance(value, str) and not check_percent(value) and int(value[:-1]) > 100:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


def scaled(value: int | str | None) -> int:
    """Return the number of an int-or-percent, as far as whether it is zero goes."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return int(digits) if digits.isdigit() else 0
    return value or 0


def check_selector(selector: Object | None, field: str) -> list[Cause]:
    """Check a LabelSelector."""
    if selector is None:
        return []
    causes = validate_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        causes += _check_requirement(item, f"{field}.matchExpressions[{index}]")
    return causes


def _check_requirement(item: Object, field: str) -> list[Cause]:
    values = item.get("values") or []
    operator = item.get("operator") or ""
    causes = check_values(operator, values, field)
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    causes += check_qualified(item.get("key") or "", f"{field}.key")
    for index, value in enumerate(values):
        causes += with_faults(f"{field}.values[{index}]", value, check_label_value(value))
    return causes


def check_values(operator: str, values: list[str], field: str) -> list[Cause]:
    """Check the number of values that a selector's operator takes."""
    if operator in ("In", "NotIn") and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        return [required(f"{field}.values", detail)]
    if operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(f"{field}.values", detail)]
    return []


def is_empty_selector(selector: Object) -> bool:
    """Tell whether a LabelSelector selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Tell whether a LabelSelector selects these labels."""
    wanted = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _meets(item, labels) for item in selector.get("matchExpressions") or ()
    )


def _meets(item: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(item.get("key") or ""), item.get("values") or ()
    match item.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
