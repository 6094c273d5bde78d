"""Conversion of HorizontalPodAutoscalers between autoscaling/v1 and v2.

v1 knows one target, the CPU's; it carries the rest of v2 in annotations.
"""

from __future__ import annotations

import json
from typing import Any

from kubewright.api.resource import Object

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_ANNOTATIONS = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
_V1, _V2 = "autoscaling/v1", "autoscaling/v2"
# What v1 calls the targets of a resource metric.
_RESOURCE_TARGETS = (
    ("averageUtilization", "targetAverageUtilization", "Utilization"),
    ("averageValue", "targetAverageValue", "AverageValue"),
)


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _is_cpu_target(metric: Object) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return resource.get("name") == "cpu" and target.get("averageUtilization") is not None


def to_autoscaler_v1(obj: Object) -> Object:
    """Turn an autoscaler of either version into one of v1."""
    if obj.get("apiVersion") != _V2:
        return obj
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict((obj["metadata"].get("annotations")) or {})
    metrics = spec.pop("metrics", None) or []
    for metric in metrics:
        if _is_cpu_target(metric):
            target = metric["resource"]["target"]["averageUtilization"]
            spec["targetCPUUtilizationPercentage"] = target
    others = [_metric_to_v1(metric) for metric in metrics if not _is_cpu_target(metric)]
    current = status.pop("currentMetrics", None)
    conditions = status.pop("conditions", None)
    behavior = spec.pop("behavior", None)
    parts = {_METRICS: others, _CURRENT: current, _CONDITIONS: conditions}
    annotations |= {key: _dump(value) for key, value in parts.items() if value}
    if behavior is not None:
        annotations[_BEHAVIOR] = _dump(_capitalized(behavior))
    status.setdefault("currentReplicas", 0)
    metadata = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "apiVersion": _V1, "metadata": metadata, "spec": spec, "status": status}


def _capitalized(behavior: Object) -> Object:
    """Write the behaviour as Go writes its internal type, which has no JSON names."""
    result: Object = {}
    for go, key in (("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")):
        rules = behavior.get(key)
        result[go] = rules and {
            "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
            "SelectPolicy": rules.get("selectPolicy"),
            "Policies": [
                {
                    "Type": policy.get("type"),
                    "Value": policy.get("value"),
                    "PeriodSeconds": policy.get("periodSeconds"),
                }
                for policy in rules.get("policies") or ()
            ],
            "Tolerance": rules.get("tolerance"),
        }
    return result


def _metric_to_v1(metric: Object) -> Object:
    resource = metric.get("resource")
    if resource is None:
        return metric
    flat: Object = {"name": resource.get("name", "")}
    target = resource.get("target") or {}
    flat |= {old: target[new] for new, old, _ in _RESOURCE_TARGETS if new in target}
    return {"type": metric.get("type"), "resource": flat}


def to_autoscaler_v2(obj: Object) -> Object:
    """Turn an autoscaler of either version into one of v2."""
    if obj.get("apiVersion") != _V1:
        return obj
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict((obj["metadata"].get("annotations")) or {})
    carried = {key: annotations.pop(key) for key in _ANNOTATIONS if key in annotations}
    metrics = []
    if (percent := spec.pop("targetCPUUtilizationPercentage", None)) is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    status.pop("currentCPUUtilizationPercentage", None)
    metrics += [_metric_to_v2(metric) for metric in _load(carried.get(_METRICS))]
    if metrics:
        spec["metrics"] = metrics
    if behavior := _load(carried.get(_BEHAVIOR)):
        spec["behavior"] = _lowered(behavior)
    if conditions := _load(carried.get(_CONDITIONS)):
        status["conditions"] = conditions
    status["currentMetrics"] = _load(carried.get(_CURRENT)) or None
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    metadata = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "apiVersion": _V2, "metadata": metadata, "spec": spec, "status": status}


def _load(text: str | None) -> Any:
    try:
        return json.loads(text) if text else []
    except ValueError:
        return []


def _metric_to_v2(metric: Object) -> Object:
    resource = metric.get("resource")
    if resource is None or "target" in resource:
        return metric
    found = [(new, kind, resource[old]) for new, old, kind in _RESOURCE_TARGETS if old in resource]
    target: Object = {"type": "Utilization"}
    for new, kind, value in found:
        target = {"type": kind, new: value}
    named = {"name": resource.get("name", ""), "target": target}
    return {"type": metric.get("type"), "resource": named}


def _lowered(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key[:1].lower() + key[1:]: _lowered(item)
            for key, item in value.items()
            if item is not None
        }
    return [_lowered(item) for item in value] if isinstance(value, list) else value
