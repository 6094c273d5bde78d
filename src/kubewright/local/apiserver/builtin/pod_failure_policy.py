"""Validation of a Job's podFailurePolicy (KEP-3329)."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_choice, check_qualified
from kubewright.local.apiserver.field_error import duplicate, invalid, required, show, too_many

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES, _MAX_PATTERNS, _MAX_VALUES = 20, 20, 255
_BOTH = "specifying both OnExitCodes and OnPodConditions is not supported"
_NEITHER = "specifying one of OnExitCodes and OnPodConditions is required"


def validate_pod_failure_policy(spec: Object, field: str) -> list[Cause]:
    """Return what is wrong with the policy in the spec of a Job; `field` is its place."""
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {
        container.get("name") or ""
        for key in ("containers", "initContainers")
        for container in pod.get(key) or ()
    }
    indexed = spec.get("backoffLimitPerIndex") is not None
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or []
    causes = _check_length(rules, _MAX_RULES, f"{field}.rules")
    for index, rule in enumerate(rules):
        causes += _validate_rule(rule, names, f"{field}.rules[{index}]", indexed=indexed)
    return causes


def _check_named(value: str | None, supported: Sequence[str], field: str) -> list[Cause]:
    if not value:
        return [required(field, f"valid values: [{' '.join(map(show, supported))}]")]
    return check_choice(value, supported, field)


def _check_length(items: Sequence[object], limit: int, field: str) -> list[Cause]:
    return [too_many(field, len(items), limit)] if len(items) > limit else []


def _validate_rule(rule: Object, names: set[str], field: str, *, indexed: bool) -> list[Cause]:
    action = rule.get("action") or ""
    if action == "FailIndex" and not indexed:
        detail = "requires the backoffLimitPerIndex to be set"
        causes = [invalid(f"{field}.action", action, detail)]
    else:
        causes = _check_named(action, _ACTIONS, f"{field}.action")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        causes += _validate_codes(codes, names, f"{field}.onExitCodes")
    causes += _check_length(conditions, _MAX_PATTERNS, f"{field}.onPodConditions")
    for index, pattern in enumerate(conditions):
        place = f"{field}.onPodConditions[{index}]"
        causes += check_qualified(pattern.get("type") or "", f"{place}.type")
        causes += check_choice(pattern.get("status"), _STATUSES, f"{place}.status")
    if (codes is not None) == bool(conditions):
        detail = _BOTH if conditions else _NEITHER
        # The value is left out of this message.
        causes.append(Cause("FieldValueInvalid", f"Invalid value: {detail}", field))
    return causes


def _validate_codes(codes: Object, names: set[str], field: str) -> list[Cause]:
    causes = _check_named(codes.get("operator"), _OPERATORS, f"{field}.operator")
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{field}.containerName", name, detail))
    values = codes.get("values") or []
    if not values:
        causes.append(invalid(f"{field}.values", values, "at least one value is required"))
    causes += _check_length(values, _MAX_VALUES, f"{field}.values")
    for index, value in enumerate(values):
        if value == 0 and codes.get("operator") == "In":
            detail = "must not be 0 for the In operator"
            causes.append(invalid(f"{field}.values[{index}]", value, detail))
        if value in values[:index]:
            causes.append(duplicate(f"{field}.values[{index}]", value))
    if values != sorted(values):
        causes.append(invalid(f"{field}.values", values, "must be ordered"))
    return causes
