"""The decision of a ResourceQuota: what its status says, and which changes give something back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object, Resource
from kubewright.local.quota.usage import (
    Usage,
    is_bounded,
    is_selected,
    names_counted,
    pod_deadline,
    sum_usage,
    usage_of,
)


def count_usage(
    quota: Object, resource: Resource, objects: Iterable[Object], now: datetime
) -> Usage:
    """Count what objects of one resource use of a quota; a name that nothing uses counts 0."""
    names = names_counted(resource, hard_of(quota))
    parts: list[Usage] = [{name: Quantity(0) for name in names}]
    for obj in objects:
        if is_selected(quota, resource, obj):
            usage = usage_of(resource, obj, now)
            parts.append({name: usage[name] for name in usage.keys() & names})
    return sum_usage(parts)


def hard_of(quota: Object) -> Mapping[str, str]:
    """Return the limits of a quota by name."""
    hard: Mapping[str, str] = (quota.get("spec") or {}).get("hard") or {}
    return hard


def build_status(quota: Object, usage: Usage) -> Object:
    """Build the status of a quota; what could not be counted keeps its last value."""
    hard = hard_of(quota)
    before = (quota.get("status") or {}).get("used") or {}
    used = {**before, **{name: str(amount) for name, amount in usage.items()}}
    return {"hard": dict(hard), "used": {name: used[name] for name in sorted(used.keys() & hard)}}


def is_same_status(one: Object, other: Object) -> bool:
    """Tell whether two statuses say the same amounts, however they write them."""
    return all(_amounts(one, key) == _amounts(other, key) for key in ("hard", "used"))


def _amounts(status: Object, key: str) -> dict[str, Quantity] | None:
    amounts = status.get(key)
    return None if amounts is None else {name: Quantity(text) for name, text in amounts.items()}


def is_settled(quota: Object) -> bool:
    """Tell whether the status is about the limits that the spec has now."""
    return _amounts(quota.get("status") or {}, "hard") == _amounts(quota.get("spec") or {}, "hard")


def gives_back(resource: Resource, old: Object, new: Object, now: datetime) -> bool:
    """Tell whether a change makes an object count less, or in other quotas than before."""
    if resource.plural == "pods" and is_bounded(old["spec"]) is not is_bounded(new["spec"]):
        return True
    before, after = usage_of(resource, old, now), usage_of(resource, new, now)
    return any(name not in after or after[name] < amount for name, amount in before.items())


def next_release(pods: Iterable[Object], now: datetime) -> timedelta | None:
    """Return when the next pod that should be gone stops counting, by time alone."""
    ends = [end - now for pod in pods if (end := pod_deadline(pod)) is not None and end >= now]
    return min(ends, default=None)
