"""Defaults of the apps, batch and autoscaling groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from kubewright.api.resource import Object

_MAX_INT32 = 2**31 - 1
_SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Object = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_CPU_AT_80 = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def _deployment(deployment: Object) -> None:
    spec = deployment["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        update = strategy.setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", "25%")
        update.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _daemon_set(daemon_set: Object) -> None:
    spec = daemon_set["spec"]
    strategy = spec["updateStrategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        update = strategy.setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", 1)
        update.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _stateful_set(stateful_set: Object) -> None:
    spec = stateful_set["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    update = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and update is not None:
        update.setdefault("partition", 0)
        update.setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)


def _replica_set(replica_set: Object) -> None:
    replica_set["spec"].setdefault("replicas", 1)


def _job(job: Object) -> None:
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    replacement = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replacement)
    spec.setdefault("manualSelector", False)


def _cron_job(cron_job: Object) -> None:
    spec = cron_job["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def _autoscaler(autoscaler: Object) -> None:
    spec = autoscaler["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [deepcopy(_CPU_AT_80)]
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior["scaleUp"] = {**deepcopy(_SCALE_UP), **behavior.get("scaleUp", {})}
        behavior["scaleDown"] = {**deepcopy(_SCALE_DOWN), **behavior.get("scaleDown", {})}


DEFAULTS: Mapping[str, Mapping[str, Any] | Callable[[Object], None]] = {
    "apps.v1.DaemonSet": _daemon_set,
    "apps.v1.Deployment": _deployment,
    "apps.v1.ReplicaSet": _replica_set,
    "apps.v1.StatefulSet": _stateful_set,
    "autoscaling.v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "autoscaling.v2.HorizontalPodAutoscaler": _autoscaler,
    "batch.v1.CronJob": _cron_job,
    "batch.v1.Job": _job,
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
}
