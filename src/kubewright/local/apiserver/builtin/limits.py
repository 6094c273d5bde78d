"""Rules of LimitRange and ResourceQuota."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_qualified
from kubewright.local.apiserver.builtin.pods.resources import (
    STANDARD,
    STANDARD_QUOTA,
    check_amount,
    check_resource_name,
)
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, CREATED_AT, column, format_age
from kubewright.local.apiserver.field_error import duplicate, forbidden, invalid, required

_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_POD_AMOUNTS = frozenset(
    {"pods", "cpu", "memory"} | {"limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
# What quotas with a scope may limit.
_SCOPED = {
    **dict.fromkeys(_SCOPES, _POD_AMOUNTS),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_EXISTING = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def _validate_limit_range(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, item in enumerate(obj["spec"].get("limits") or ()):
        field, kind = f"spec.limits[{index}]", item.get("type") or ""
        if "/" in kind or kind not in ("Pod", "Container", "PersistentVolumeClaim"):
            causes += check_qualified(kind, f"{field}.type")
        if kind in seen:
            causes.append(duplicate(f"{field}.type", kind))
        seen.add(kind)
        causes += _validate_bounds(item, kind, field)
    return causes


def _validate_bounds(item: Object, kind: str, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if kind == "Pod":
        causes += [
            forbidden(f"{field}.{key}", "may not be specified when `type` is 'Pod'")
            for key in ("default", "defaultRequest")
            if item.get(key)
        ]
    names = sorted({name for key in _BOUNDS for name in item.get(key) or ()})
    for name in names:
        amounts = {
            key: Quantity(item[key][name]) for key in _BOUNDS if name in (item.get(key) or {})
        }
        causes += _compare_bounds(item, amounts, name, field)
    return causes


def _compare_bounds(
    item: Object, amounts: dict[str, Quantity], name: str, field: str
) -> list[Cause]:
    causes: list[Cause] = []

    def compare(low: str, high: str, blamed: str, shown: str, text: str) -> None:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            detail = text.format(amounts[low], amounts[high])
            causes.append(invalid(f"{field}.{blamed}[{name}]", item[shown][name], detail))

    compare("min", "max", "min", "min", "min value {0} is greater than max value {1}")
    compare(
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {0} is greater than default request value {1}",
    )
    compare(
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than max value {1}",
    )
    compare(
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than default limit value {1}",
    )
    compare("min", "default", "default", "min", "min value {0} is greater than default value {1}")
    compare("default", "max", "default", "max", "default value {0} is greater than max value {1}")
    return causes


def _validate_quota(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    for name, amount in sorted((spec.get("hard") or {}).items()):
        causes += _validate_quota_item(name, amount, f"spec.hard[{name}]")
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            causes.append(invalid("spec.scopes", scopes, "unsupported scope"))
        causes += [
            invalid("spec.scopes", scopes, "unsupported scope applied to resource")
            for name in sorted(spec.get("hard") or ())
            if name in STANDARD_QUOTA and name not in _SCOPED.get(scope, STANDARD_QUOTA)
        ]
    if any(pair <= set(scopes) for pair in _CONFLICTS):
        causes.append(invalid("spec.scopes", scopes, "conflicting scopes"))
    return causes + _validate_scope_selector(spec)


def _validate_scope_selector(spec: Object) -> list[Cause]:
    selector, field = spec.get("scopeSelector") or {}, "spec.scopeSelector.matchExpressions"
    causes: list[Cause] = []
    expressions = selector.get("matchExpressions") or ()
    for expression in expressions:
        scope = expression.get("scopeName") or ""
        if scope not in _SCOPES:
            causes.append(invalid(f"{field}.scopeName", scope, "unsupported scope"))
        causes += [
            invalid(field, selector, "unsupported scope applied to resource")
            for name in sorted(spec.get("hard") or ())
            if name in STANDARD_QUOTA and name not in _SCOPED.get(scope, STANDARD_QUOTA)
        ]
        causes += _validate_scope_operator(scope, expression, field)
    if any(pair <= {e.get("scopeName") for e in expressions} for pair in _CONFLICTS):
        causes.append(invalid(field, spec.get("scopes"), "conflicting scopes"))
    return causes


def _validate_scope_operator(scope: str, expression: Object, field: str) -> list[Cause]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    causes: list[Cause] = []
    if scope in _EXISTING and operator != "Exists":
        causes.append(invalid(f"{field}.operator", operator, _MUST_EXIST))
    match operator:
        case "In" | "NotIn":
            if not values:
                detail = (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                    "selector"
                )
                causes.append(required(f"{field}.values", detail))
        case "Exists" | "DoesNotExist":
            if values:
                detail = (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
                    "selector"
                )
                causes.append(invalid(f"{field}.values", values, detail))
        case _:
            causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    return causes


def _validate_quota_item(name: str, amount: str, field: str) -> list[Cause]:
    causes = [] if name in STANDARD else check_resource_name(name, field)
    is_known = name in STANDARD_QUOTA or name.startswith(("hugepages-", "requests.hugepages-"))
    if "/" not in name and not is_known:
        causes.append(invalid(field, name, "must be a standard resource for quota"))
    return causes + check_amount(name, amount, field)


def _validate_quota_update(obj: Object, old: Object) -> list[Cause]:
    if set(obj["spec"].get("scopes") or ()) != set(old["spec"].get("scopes") or ()):
        scopes = obj["spec"].get("scopes")
        return [invalid("spec.scopes", scopes, "field is immutable")]
    return []


def _validate_quota_status(obj: Object, old: Object) -> list[Cause]:
    return [
        cause
        for key in ("hard", "used")
        for name, amount in sorted((obj["status"].get(key) or {}).items())
        for cause in check_amount(name, amount, f"status.{key}[{name}]")
    ]


def _quota_cells(obj: Object, now: datetime) -> list[Any]:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        column_of = limits if name.startswith("limits.") else requests
        column_of.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [", ".join(requests), ", ".join(limits), format_age(obj, now)]


LIMIT_RANGE = Rules(
    allow_create_on_update=True,
    validate=_validate_limit_range,
    table=Table((CREATED_AT,), lambda obj, now: [obj["metadata"].get("creationTimestamp")]),
)
RESOURCE_QUOTA = Rules(
    validate=_validate_quota,
    validate_update=_validate_quota_update,
    validate_status_update=_validate_quota_status,
    table=Table((column("Request"), column("Limit"), AGE), _quota_cells),
)
