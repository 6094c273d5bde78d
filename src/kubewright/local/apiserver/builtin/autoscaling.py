"""Rules of the autoscaling group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.autoscaler_conversion import to_autoscaler_v2
from kubewright.local.apiserver.builtin.checks import with_faults
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.scaling_rules import (
    validate_behavior,
    validate_identifier,
    validate_metric_target,
)
from kubewright.local.apiserver.builtin.table import (
    AGE,
    NONE,
    UNKNOWN,
    UNSET,
    column,
    format_age,
)
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required
from kubewright.local.apiserver.objectmeta import path_segment

_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_MISSING = "must populate information for the given metric source"
_NO_TARGET = "must set either a target raw value or a target utilization"
_NOTHING_WAKES = (
    "must specify at least one Object or External metric to support scaling to zero replicas"
)
_MOST = 2


def _validate(obj: Object) -> list[Cause]:
    spec = to_autoscaler_v2(obj)["spec"]
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    causes: list[Cause] = []
    late: list[Cause] = []
    if low is not None and low < 0:
        late.append(invalid("spec.minReplicas", low, "must be greater than or equal to 0"))
    if high == 0:
        late.append(required("spec.maxReplicas"))
    elif high < 0:
        late.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        detail = "must be greater than or equal to `minReplicas`"
        causes.append(invalid("spec.maxReplicas", high, detail))
    causes += _validate_target(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    for index, metric in enumerate(spec.get("metrics") or ()):
        causes += _validate_metric(metric, f"spec.metrics[{index}]")
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if low == 0 and not kinds & {"Object", "External"}:
        causes.append(forbidden("spec.metrics", _NOTHING_WAKES))
    causes += validate_behavior(spec.get("behavior") or {}, "spec.behavior")
    return causes + late


def _validate_target(reference: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("kind", "name"):
        value = reference.get(key) or ""
        if not value:
            causes.append(required(f"{field}.{key}"))
        else:
            causes += with_faults(f"{field}.{key}", value, path_segment(value))
    version = reference.get("apiVersion") or ""
    if "/" not in version and reference.get("kind") != "ReplicationController":
        detail = "apiVersion must specify API group"
        causes.append(invalid(f"{field}.apiVersion", version, detail))
    return causes


def _validate_metric(metric: Object, field: str) -> list[Cause]:
    kind = metric.get("type") or ""
    if not kind:
        return [required(f"{field}.type", "must specify a metric source type")]
    wanted = _METRICS.get(kind)
    if wanted is None:
        return [not_supported(f"{field}.type", kind, sorted(_METRICS))]
    causes: list[Cause] = []
    if resource := metric.get("resource"):
        causes += _validate_resource(resource, f"{field}.resource")
    if pods := metric.get("pods"):
        causes += _validate_pods(pods, f"{field}.pods")
    if wanted not in metric:
        causes.append(required(f"{field}.{wanted}", _MISSING))
    causes += [
        forbidden(f"{field}.{key}", "must populate the given metric source only")
        for key in _METRICS.values()
        if key in metric and key != wanted
    ]
    return causes


def _validate_resource(resource: Object, field: str) -> list[Cause]:
    causes = (
        [] if resource.get("name") else [required(f"{field}.name", "must specify a resource name")]
    )
    target = resource.get("target") or {}
    causes += validate_metric_target(target, f"{field}.target")
    if target.get("averageUtilization") is None and target.get("averageValue") is None:
        causes.append(required(f"{field}.target.averageUtilization", _NO_TARGET))
    return causes


def _validate_pods(pods: Object, field: str) -> list[Cause]:
    target = pods.get("target") or {}
    causes = validate_identifier(pods.get("metric") or {}, f"{field}.metric")
    causes += validate_metric_target(target, f"{field}.target")
    if target.get("averageValue") is None:
        detail = "must specify a positive target averageValue"
        causes.append(required(f"{field}.target.averageValue", detail))
    return causes


def _metric_text(metric: Object, current: Object) -> str:
    key = _METRICS.get(metric.get("type") or "")
    if key is None:
        return "<unknown type>"
    target = (metric.get(key) or {}).get("target") or {}
    now = (current.get(key) or {}).get("current") or {}
    named = key in ("resource", "containerResource")
    prefix = f"{(metric.get(key) or {}).get('name', '')}: " if named else ""
    if target.get("averageValue") is not None:
        suffix = " (avg)" if key in ("external", "object") else ""
        return f"{prefix}{now.get('averageValue', UNKNOWN)}/{target['averageValue']}{suffix}"
    if not named:
        return f"{now.get('value', UNKNOWN)}/{target.get('value', '0')}"
    used, wanted = now.get("averageUtilization"), target.get("averageUtilization")
    shown = UNKNOWN if used is None else f"{used}%"
    return f"{prefix}{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _cells(obj: Object, now: datetime) -> list[Any]:
    obj = to_autoscaler_v2(obj)
    spec, status = obj["spec"], obj.get("status") or {}
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    padded = [*current, *[{}] * len(metrics)]
    texts = [_metric_text(metric, padded[index]) for index, metric in enumerate(metrics)]
    shown = ", ".join(texts[:_MOST]) or NONE
    if len(texts) > _MOST:
        shown = f"{shown} + {len(texts) - _MOST} more..."
    reference = spec.get("scaleTargetRef") or {}
    low = spec.get("minReplicas")
    return [
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        shown,
        UNSET if low is None else str(low),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        format_age(obj, now),
    ]


RULES: Mapping[str, Rules] = {
    "HorizontalPodAutoscaler": Rules(
        has_generation=True,
        validate=_validate,
        table=Table(
            (
                column("Reference"),
                column("Targets"),
                column("MinPods"),
                column("MaxPods"),
                column("Replicas"),
                AGE,
            ),
            _cells,
        ),
    )
}
