"""Validation of how an autoscaler measures and how fast it scales."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_choice, with_faults
from kubewright.local.apiserver.field_error import invalid, required
from kubewright.local.apiserver.objectmeta import path_segment

_SELECT = ("Disabled", "Max", "Min")
_KINDS = ("Percent", "Pods")
_TARGETS = ("Utilization", "Value", "AverageValue")
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800


def validate_behavior(behavior: Object, field: str) -> list[Cause]:
    """Return what is wrong with the `behavior` of an autoscaler."""
    causes: list[Cause] = []
    for key in ("scaleUp", "scaleDown"):
        if behavior.get(key) is not None:
            causes += _validate_rules(behavior[key], f"{field}.{key}")
    return causes


def _validate_rules(rules: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    window, place = rules.get("stabilizationWindowSeconds"), f"{field}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        causes.append(invalid(place, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        causes.append(invalid(place, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    causes += check_choice(rules.get("selectPolicy"), _SELECT, f"{field}.selectPolicy")
    policies = rules.get("policies") or []
    if not policies:
        causes.append(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        causes += _validate_policy(policy, f"{field}.policies[{index}]")
    return causes


def _validate_policy(policy: Object, field: str) -> list[Cause]:
    causes = check_choice(policy.get("type"), _KINDS, f"{field}.type", needed=False)
    for key in ("value", "periodSeconds"):
        number = policy.get(key) or 0
        if number <= 0:
            causes.append(invalid(f"{field}.{key}", number, "must be greater than zero"))
    period = policy.get("periodSeconds") or 0
    if period > _LONGEST_PERIOD:
        detail = f"must be less than or equal to {_LONGEST_PERIOD}"
        causes.append(invalid(f"{field}.periodSeconds", period, detail))
    return causes


def validate_identifier(metric: Object, field: str) -> list[Cause]:
    """Return what is wrong with what names a metric."""
    name = metric.get("name") or ""
    if not name:
        return [required(f"{field}.name", "must specify a metric name")]
    return with_faults(f"{field}.name", name, path_segment(name))


def validate_metric_target(target: Object, field: str) -> list[Cause]:
    """Return what is wrong with what an autoscaler aims at."""
    kind = target.get("type") or ""
    causes: list[Cause] = []
    if not kind:
        causes.append(required(f"{field}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        detail = "must be either Utilization, Value, or AverageValue"
        causes.append(invalid(f"{field}.type", kind, detail))
    for key in ("value", "averageValue"):
        amount = target.get(key)
        if amount is not None and Quantity(amount).value <= 0:
            causes.append(invalid(f"{field}.{key}", amount, "must be positive"))
    used = target.get("averageUtilization")
    if used is not None and used < 1:
        causes.append(invalid(f"{field}.averageUtilization", used, "must be greater than 0"))
    return causes
