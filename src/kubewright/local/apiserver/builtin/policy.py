"""Rules of the policy group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_at_most_hundred_percent,
    check_choice,
    check_int_or_percent,
    check_numbers,
    check_selector,
)
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, column, format_age
from kubewright.local.apiserver.field_error import invalid

_GO_NAMES = (
    ("MinAvailable", "minAvailable"),
    ("Selector", "selector"),
    ("MaxUnavailable", "maxUnavailable"),
    ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy"),
)


def _validate(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    causes: list[Cause] = []
    if least is not None and most is not None:
        shown = {go: spec.get(key) for go, key in _GO_NAMES}
        detail = "minAvailable and maxUnavailable cannot be both set"
        causes.append(invalid("spec", shown, detail))
    for key, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            causes += check_int_or_percent(value, f"spec.{key}")
            causes += check_at_most_hundred_percent(value, f"spec.{key}")
    causes += check_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    choices = ("AlwaysAllow", "IfHealthyBudget")
    return causes + check_choice(policy, choices, "spec.unhealthyPodEvictionPolicy")


_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _validate_status(obj: Object, old: Object) -> list[Cause]:
    return check_numbers(obj["status"], _COUNTS, "status")


def _cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    bounds = [spec.get(key) for key in ("minAvailable", "maxUnavailable")]
    shown = ["N/A" if bound is None else str(bound) for bound in bounds]
    return [*shown, obj["status"].get("disruptionsAllowed") or 0, format_age(obj, now)]


RULES: Mapping[str, Rules] = {
    "PodDisruptionBudget": Rules(
        has_generation=True,
        allow_unconditional_update=False,
        validate=_validate,
        validate_status_update=_validate_status,
        table=Table(
            (
                column("Min Available"),
                column("Max Unavailable"),
                column("Allowed Disruptions", "integer"),
                AGE,
            ),
            _cells,
        ),
    )
}
