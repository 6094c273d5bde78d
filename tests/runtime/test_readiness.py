"""Readiness follows kstatus."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.resource import Object
from kubewright.runtime.readiness import Progress, compute_readiness

CURRENT, IN_PROGRESS, FAILED = Progress.CURRENT, Progress.IN_PROGRESS, Progress.FAILED


def build(api_version: str, kind: str, spec: Object | None = None, **status: Any) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "generation": 2},
        "spec": spec or {},
        "status": status,
    }


def deployment(**status: Any) -> Object:
    full = {
        "observedGeneration": 2,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "conditions": [{"type": "Available", "status": "True"}],
    }
    return build("apps/v1", "Deployment", {"replicas": 3}, **(full | status))


def stateful_set(spec: Object | None = None, **status: Any) -> Object:
    full = {
        "observedGeneration": 2,
        "replicas": 3,
        "readyReplicas": 3,
        "currentRevision": "a",
        "updateRevision": "a",
    }
    return build("apps/v1", "StatefulSet", {"replicas": 3} | (spec or {}), **(full | status))


DEADLINE = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
REFUSED = [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]


@pytest.mark.parametrize(
    ("obj", "progress", "says"),
    [
        (deployment(), CURRENT, ""),
        (deployment(observedGeneration=1), IN_PROGRESS, "latest change"),
        (deployment(observedGeneration=None), IN_PROGRESS, "not seen it yet"),
        (deployment(updatedReplicas=1), IN_PROGRESS, "1 of 3 replicas are updated"),
        (
            deployment(updatedReplicas=0, conditions=REFUSED),
            IN_PROGRESS,
            "0 of 3 replicas are updated: exceeded quota",
        ),
        (deployment(replicas=4), IN_PROGRESS, "1 old replicas"),
        (deployment(availableReplicas=2), IN_PROGRESS, "2 of 3 replicas are available"),
        (deployment(conditions=DEADLINE), FAILED, "no progress"),
        (stateful_set(), CURRENT, ""),
        (stateful_set(readyReplicas=1), IN_PROGRESS, "1 of 3 replicas are ready"),
        (stateful_set(updateRevision="b"), IN_PROGRESS, "latest revision"),
        (
            stateful_set({"updateStrategy": {"rollingUpdate": {"partition": 2}}}),
            IN_PROGRESS,
            "0 of 1 replicas are updated",
        ),
        (stateful_set({"updateStrategy": {"type": "OnDelete"}}, readyReplicas=0), CURRENT, ""),
        (build("apps/v1", "DaemonSet", observedGeneration=2), IN_PROGRESS, "not counted"),
        (
            build(
                "apps/v1",
                "DaemonSet",
                observedGeneration=2,
                desiredNumberScheduled=2,
                currentNumberScheduled=2,
                updatedNumberScheduled=2,
                numberAvailable=2,
                numberReady=2,
            ),
            CURRENT,
            "",
        ),
        (build("batch/v1", "Job"), IN_PROGRESS, "not started"),
        (build("batch/v1", "Job", startTime="2026-11-28T00:00:00Z"), CURRENT, ""),
        (
            build("batch/v1", "Job", conditions=[{"type": "Failed", "status": "True"}]),
            FAILED,
            "job failed",
        ),
        (build("v1", "Pod", phase="Pending"), IN_PROGRESS, "Pending"),
        (build("v1", "Pod", phase="Succeeded"), CURRENT, ""),
        (
            build("v1", "Pod", phase="Running", conditions=[{"type": "Ready", "status": "True"}]),
            CURRENT,
            "",
        ),
        (
            build(
                "v1",
                "Pod",
                phase="Running",
                containerStatuses=[
                    {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
                ],
            ),
            FAILED,
            "container a keeps crashing",
        ),
        (build("v1", "PersistentVolumeClaim", phase="Pending"), IN_PROGRESS, "Pending"),
        (build("v1", "PersistentVolumeClaim", phase="Bound"), CURRENT, ""),
        (build("v1", "Service"), CURRENT, ""),
        (build("v1", "Service", {"type": "LoadBalancer"}), IN_PROGRESS, "no address"),
        (build("v1", "ConfigMap"), CURRENT, ""),
        (
            build("a.example.com/v1", "Thing", conditions=[{"type": "Ready", "status": "False"}]),
            IN_PROGRESS,
            "not ready",
        ),
        (
            build(
                "a.example.com/v1",
                "Thing",
                conditions=[{"type": "Stalled", "status": "True", "message": "no quota"}],
            ),
            FAILED,
            "no quota",
        ),
    ],
)
def test_progress(obj: Object, progress: Progress, says: str) -> None:
    readiness = compute_readiness(obj)
    assert readiness.progress is progress
    assert says in readiness.message
    assert readiness.is_ready == (progress is CURRENT)


def test_a_deleted_object_is_terminating() -> None:
    obj = deployment()
    obj["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"
    assert compute_readiness(obj).progress is Progress.TERMINATING
