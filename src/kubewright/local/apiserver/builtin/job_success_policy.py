"""Validation of a Job's successPolicy (KEP-3998)."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_not_negative
from kubewright.local.apiserver.builtin.internal_form import show_internal
from kubewright.local.apiserver.builtin.job_indexes import IndexesError, count_indexes
from kubewright.local.apiserver.field_error import invalid, required, too_long, too_many

_MAX_RULES = 20
_MAX_TEXT = 64 * 1024
_NO_RULE = "at least one rules must be specified when the successPolicy is specified"
_NO_CONDITION = "at least one of succeededCount or succeededIndexes must be specified"


def validate_success_policy(spec: Object, field: str) -> list[Cause]:
    """Return what is wrong with the policy in the spec of a Job; `field` is its place."""
    policy = spec.get("successPolicy")
    if policy is None:
        return []
    if spec.get("completionMode") != "Indexed":
        shown = show_internal(policy, "SuccessPolicy")
        return [invalid(field, shown, "requires indexed completion mode")]
    rules = policy.get("rules") or []
    causes = [] if rules else [required(f"{field}.rules", _NO_RULE)]
    if len(rules) > _MAX_RULES:
        causes.append(too_many(f"{field}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        causes += _validate_rule(rule, spec.get("completions") or 0, f"{field}.rules[{index}]")
    return causes


def _validate_rule(rule: Object, completions: int, field: str) -> list[Cause]:
    text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if text is None and count is None:
        return [required(field, _NO_CONDITION)]
    causes, total = [], 0
    if text is not None:
        place = f"{field}.succeededIndexes"
        if len(text) > _MAX_TEXT:
            causes.append(too_long(place, _MAX_TEXT))
        try:
            total = count_indexes(text, completions)
        except IndexesError as error:
            causes.append(invalid(place, text, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return causes
    place = f"{field}.succeededCount"
    causes += check_not_negative(count, place)
    limits = [(completions, "the number of specified completions")]
    if text is not None:
        limits.append((total, "the number of indexes in the specified succeededIndexes field"))
    causes += [
        invalid(place, count, f"must be less than or equal to {limit} ({meaning})")
        for limit, meaning in limits
        if count > limit
    ]
    return causes
