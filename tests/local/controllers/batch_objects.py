"""Jobs, CronJobs and their pods as an API server would store them, for tests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.local.controllers.objects import NOW

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.job.job_pod import (
    COMPLETION_INDEX,
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
)


def build_job(
    name: str = "work",
    *,
    restart: str = "Never",
    status: Object | None = None,
    deleting: bool = False,
    **spec: Any,
) -> Object:
    indexed = {"completionMode": "Indexed"} if spec.pop("indexed", False) else {}
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 1}
    if deleting:
        metadata["deletionTimestamp"] = format_time(NOW)
    template = {"restartPolicy": restart, "containers": [{"name": "c", "image": "busybox:1.35"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "template": {"metadata": {"labels": {"job-name": name}}, "spec": template},
            **indexed,
            **spec,
        },
        "status": status or {},
    }


def build_job_pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    failures: int | None = None,
    ignored: int | None = None,
    exit_code: int | None = None,
    ended: int = 0,
    tracked: bool = True,
    deleting: bool = False,
    ready: bool = False,
    node: str = "node-a",
    restarts: int = 0,
    conditions: list[Object] | None = None,
) -> Object:
    """Build a pod; `ended` is how many seconds ago it did, if its phase says that it has."""
    counts = {COMPLETION_INDEX: index, FAILURE_COUNT: failures, IGNORED_FAILURE_COUNT: ignored}
    metadata: Object = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "creationTimestamp": format_time(NOW - timedelta(hours=1)),
        "annotations": {key: str(value) for key, value in counts.items() if value is not None},
        "finalizers": [TRACKING_FINALIZER] if tracked else [],
    }
    if deleting:
        metadata["deletionTimestamp"] = format_time(NOW)
    state: Object = {"running": {}}
    if phase in ("Succeeded", "Failed"):
        code = (phase == "Failed") if exit_code is None else exit_code
        moment = format_time(NOW - timedelta(seconds=ended))
        state = {"terminated": {"exitCode": int(code), "finishedAt": moment}}
    told = [{"type": "Ready", "status": "True" if ready else "False"}, *(conditions or [])]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "busybox:1.35"}]},
        "status": {
            "phase": phase,
            "conditions": told,
            "containerStatuses": [{"name": "c", "restartCount": restarts, "state": state}],
        },
    }


def build_cron_job(
    name: str = "tick",
    schedule: str = "0 * * * *",
    *,
    created: timedelta = timedelta(0),
    status: Object | None = None,
    **spec: Any,
) -> Object:
    """Build a CronJob; `created` is how long ago it was made."""
    pod = {**build_job()["spec"]["template"], "metadata": {}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(NOW - created),
        },
        "spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {"labels": {"from": "cron"}, "annotations": {"note": "x"}},
                "spec": {"template": pod},
            },
            **spec,
        },
        "status": status or {},
    }
