"""Compare a desired value with the one that the server stored of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object

QUANTITIES = frozenset(
    {
        "requests",
        "limits",
        "capacity",
        "hard",
        "sizeLimit",
        "divisor",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
        "averageValue",
        "overhead",
        "podFixed",
    }
)
"""Fields that hold quantities, which the API server rewrites in canonical form.

Elsewhere "1" and "1000m" are different texts, such as the values of two variables.
"""

_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "apiGroup": ("", "rbac.authorization.k8s.io"),
    "apiVersion": ("v1",),
    "defaultMode": (420,),
    "divisor": ("0",),
    "expirationSeconds": (3600,),
    "kind": ("PersistentVolumeClaim",),
    "name": ("",),
    "protocol": ("TCP",),
    "scheme": ("HTTP",),
    "selectPolicy": ("Max",),
    "status": ({"phase": "Pending"},),
    "volumeMode": ("Filesystem",),
}
"""Defaults of built-in kinds inside values that are owned as a whole, such as a claim template.

A default that is missing here costs one request for each such object at each start.
"""

SCALARS = frozenset({str, int, bool})
"""Types whose values are compared as they are."""


def covers(desired: Any, live: Any, is_quantity: bool) -> bool:
    """Tell whether a live value is the desired one, give or take what the server adds to it.

    The value is owned as a whole: its entry does not tell what was left out of it lately, so only
    known defaults may stand in a live map beside what is desired.
    """
    if not desired and live is None and isinstance(desired, dict | list):
        return True
    if isinstance(desired, dict):
        return isinstance(live, dict) and _covers_map(desired, live, is_quantity)
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(desired) == len(live)
            and all(covers(a, b, is_quantity) for a, b in zip(desired, live, strict=True))
        )
    if type(desired) is type(live) and desired == live:
        return True
    return (is_quantity and _is_same_quantity(desired, live)) or _is_same_number(desired, live)


def _covers_map(desired: Object, live: Object, is_quantity: bool) -> bool:
    for key, value in desired.items():
        found, kind = live.get(key), type(value)
        if kind in SCALARS and type(found) is kind and value == found:
            continue
        if not covers(value, found, is_quantity or key in QUANTITIES):
            return False
    return len(live) == len(desired) or all(
        key in desired or _is_default(key, value) for key, value in live.items()
    )


def _is_default(key: str, value: Any) -> bool:
    return value is None or value in _DEFAULTS.get(key, ())


def _is_same_number(desired: Any, live: Any) -> bool:
    numbers = (int, float)
    return (
        isinstance(desired, numbers)
        and isinstance(live, numbers)
        and not isinstance(desired, bool)
        and not isinstance(live, bool)
        and desired == live
    )


def _is_same_quantity(desired: Any, live: Any) -> bool:
    if live is None:
        return False
    try:
        return Quantity(desired) == Quantity(live)
    except ValueError:
        return False
