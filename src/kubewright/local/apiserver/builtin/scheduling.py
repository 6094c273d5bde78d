"""Rules of the scheduling.k8s.io and node.k8s.io groups."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_immutable, check_label
from kubewright.local.apiserver.builtin.pods.resources import (
    check_amount,
    check_container_resource_name,
)
from kubewright.local.apiserver.builtin.pods.scheduling import validate_tolerations
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, column, format_age
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required
from kubewright.local.apiserver.objectmeta import validate_labels

_SYSTEM = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_MOST = 1000000000
_POLICIES = ("PreemptLowerPriority", "Never")


def _validate_class(obj: Object) -> list[Cause]:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    causes: list[Cause] = []
    if name.startswith("system-"):
        if _SYSTEM.get(name) != value:
            problem = f"{name} is not a known system priority class"
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only."
                f" error: {problem}"
            )
            causes.append(forbidden("metadata.name", detail))
    elif value > _MOST:
        detail = f"maximum allowed value of a user defined priority is {_MOST}"
        causes.append(forbidden("value", detail))
    policy = obj.get("preemptionPolicy")
    if policy and policy not in _POLICIES:
        causes.append(not_supported("preemptionPolicy", policy, _POLICIES))
    return causes


def _validate_class_update(obj: Object, old: Object) -> list[Cause]:
    causes: list[Cause] = []
    if (obj.get("value") or 0) != (old.get("value") or 0):
        causes.append(forbidden("value", "may not be changed in an update."))
    policy = obj.get("preemptionPolicy")
    if policy != old.get("preemptionPolicy"):
        causes.append(invalid("preemptionPolicy", policy, "field is immutable"))
    return causes


def _class_cells(obj: Object, now: datetime) -> list[Any]:
    value, is_default = obj.get("value") or 0, bool(obj.get("globalDefault"))
    return [value, is_default, format_age(obj, now), obj.get("preemptionPolicy", "")]


def _validate_runtime_class(obj: Object) -> list[Cause]:
    handler = obj.get("handler") or ""
    causes: list[Cause] = []
    overhead = (obj.get("overhead") or {}).get("podFixed") or {}
    for name, amount in sorted(overhead.items()):
        field = f"overhead.limits[{name}]"
        causes += check_container_resource_name(name, field) + check_amount(name, amount, field)
    scheduling = obj.get("scheduling") or {}
    causes += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    causes += validate_tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")
    return causes + (check_label(handler, "handler") if handler else [required("handler")])


def _validate_runtime_class_update(obj: Object, old: Object) -> list[Cause]:
    return check_immutable(obj, old, ("handler",), "")


RULES: Mapping[str, Rules] = {
    "PriorityClass": Rules(
        has_generation=True,
        validate=_validate_class,
        validate_update=_validate_class_update,
        table=Table(
            (
                column("Value", "integer"),
                column("Global-Default", "boolean"),
                AGE,
                column("PreemptionPolicy"),
            ),
            _class_cells,
        ),
    ),
    "RuntimeClass": Rules(
        allow_create_on_update=True,
        allow_unconditional_update=False,
        validate=_validate_runtime_class,
        validate_update=_validate_runtime_class_update,
        table=Table(
            (column("Handler"), AGE),
            lambda obj, now: [obj.get("handler", ""), format_age(obj, now)],
        ),
    ),
}
