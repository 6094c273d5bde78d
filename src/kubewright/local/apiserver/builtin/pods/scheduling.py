"""Validation of what decides where a pod runs: affinity, tolerations, spread."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_label,
    check_qualified,
    check_selector,
    check_values,
    with_faults,
)
from kubewright.local.apiserver.field_error import duplicate, invalid, not_supported, required
from kubewright.local.apiserver.formats import check_label_value, range_fault

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Ignore", "Honor")


def validate_tolerations(tolerations: list[Object], field: str) -> list[Cause]:
    """Return what is wrong with tolerations."""
    causes: list[Cause] = []
    for index, item in enumerate(tolerations):
        causes += _validate_toleration(item, f"{field}[{index}]")
    return causes


def _validate_toleration(item: Object, field: str) -> list[Cause]:
    key, operator = item.get("key") or "", item.get("operator") or ""
    value, effect = item.get("value") or "", item.get("effect") or ""
    causes = check_qualified(key, f"{field}.key") if key else []
    if not key and operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty, which means"
            ' "match all values and all keys"'
        )
        causes.append(invalid(f"{field}.operator", operator, detail))
    if item.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{field}.effect", effect, detail))
    if operator in ("Equal", ""):
        if faults := check_label_value(value):
            causes.append(invalid(f"{field}.operator", value, ";".join(faults)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid(f"{field}.operator", value, detail))
    else:
        causes.append(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
    return causes + check_choice(effect, TAINT_EFFECTS, f"{field}.effect")


def validate_spread(constraints: list[Object], field: str) -> list[Cause]:
    """Return what is wrong with topology spread constraints."""
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(constraints):
        place = f"{field}[{index}]"
        skew, topology = item.get("maxSkew") or 0, item.get("topologyKey") or ""
        action = item.get("whenUnsatisfiable") or ""
        if skew <= 0:
            causes.append(invalid(f"{place}.maxSkew", skew, "must be greater than zero"))
        if not topology:
            causes.append(required(f"{place}.topologyKey", "can not be empty"))
        if action not in _UNSATISFIABLE:
            causes.append(not_supported(f"{place}.whenUnsatisfiable", action, _UNSATISFIABLE))
        if (topology, action) in seen:
            shown = f"{{{topology}, {action}}}"
            causes.append(duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", shown))
        seen.add((topology, action))
        for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            causes += check_choice(item.get(key), _INCLUSION, f"{place}.{key}")
        causes += check_selector(item.get("labelSelector"), f"{place}.labelSelector")
    return causes


def validate_affinity(affinity: Object, field: str) -> list[Cause]:
    """Return what is wrong with the affinity of a pod."""
    causes: list[Cause] = []
    if node := affinity.get("nodeAffinity"):
        causes += _validate_node_affinity(node, f"{field}.nodeAffinity")
    for key in ("podAffinity", "podAntiAffinity"):
        if terms := affinity.get(key):
            causes += _validate_pod_affinity(terms, f"{field}.{key}")
    return causes


def _validate_node_affinity(affinity: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if needed := affinity.get(_REQUIRED):
        causes += validate_node_selector(needed, f"{field}.{_REQUIRED}")
    place = f"{field}.{_PREFERRED}"
    for index, item in enumerate(affinity.get(_PREFERRED) or ()):
        causes += _check_weight(item, f"{place}[{index}]")
        term = item.get("preference") or {}
        causes += _validate_node_term(term, f"{place}[{index}].preference")
    return causes


def _check_weight(item: Object, field: str) -> list[Cause]:
    weight = item.get("weight") or 0
    if 1 <= weight <= 100:
        return []
    return [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(selector: Object, field: str) -> list[Cause]:
    """Return what is wrong with a NodeSelector."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        detail = "must have at least one node selector term"
        return [required(f"{field}.nodeSelectorTerms", detail)]
    causes: list[Cause] = []
    for index, term in enumerate(terms):
        causes += _validate_node_term(term, f"{field}.nodeSelectorTerms[{index}]")
    return causes


def _validate_node_term(term: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(term.get("matchExpressions") or ()):
        place = f"{field}.matchExpressions[{index}]"
        operator, values = item.get("operator") or "", item.get("values") or []
        causes += check_values(operator, values, place)
        if operator in ("Gt", "Lt") and len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{place}.values", detail))
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
            causes.append(invalid(f"{place}.operator", operator, "not a valid selector operator"))
        causes += check_qualified(item.get("key") or "", f"{place}.key")
        for position, value in enumerate(values):
            causes += with_faults(f"{place}.values[{position}]", value, check_label_value(value))
    return causes


def _validate_pod_affinity(affinity: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        causes += _validate_pod_term(term, f"{field}.{_REQUIRED}[{index}]")
    for index, item in enumerate(affinity.get(_PREFERRED) or ()):
        place = f"{field}.{_PREFERRED}[{index}]"
        causes += _check_weight(item, place)
        causes += _validate_pod_term(item.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")
    return causes


def _validate_pod_term(term: Object, field: str) -> list[Cause]:
    causes = check_selector(term.get("labelSelector"), f"{field}.labelSelector")
    causes += check_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for index, name in enumerate(term.get("namespaces") or ()):
        causes += check_label(name, f"{field}.namespaces[{index}]")
    key = term.get("topologyKey") or ""
    if not key:
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    return causes + check_qualified(key, f"{field}.topologyKey")


def check_deadline(seconds: int | None, field: str) -> list[Cause]:
    """Check activeDeadlineSeconds of a pod."""
    if seconds is None or 1 <= seconds <= 2**31 - 1:
        return []
    return [invalid(field, seconds, range_fault(1, 2**31 - 1))]
