"""Backups by CronJobs: what runs them, and what their Jobs tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

import kubewright as kw
from kubewright.api import find_condition

NEVER = "0 0 1 1 *"
# Without it, a schedule that was missed a hundred times is never taken up again.
STARTING_DEADLINE_SECONDS = 600


def build_backup_schedule(
    name: str, labels: dict[str, str], schedule: str, job_template: kw.Object
) -> kw.Object:
    """Build a CronJob in UTC; without a schedule it only runs by `kubectl create job --from`."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedule": schedule or NEVER,
            "timeZone": "Etc/UTC",
            "suspend": not schedule,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": STARTING_DEADLINE_SECONDS,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": job_template,
        },
    }


def build_job_template(
    labels: dict[str, str], pod: kw.Object, *, user: int, retries: int, deadline: int
) -> kw.Object:
    """Build the template of a Job whose pod runs once, at the `restricted` level.

    Arguments:
        labels: of the Job and of its pod.
        pod: its spec.
        user: the user and group id to run as, to whom volumes belong.
        retries: how often it is tried again after a failure.
        deadline: seconds after which it counts as failed.
    """
    context = {"runAsGroup": user, "fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch"}
    spec = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": context,
        **pod,
    }
    return {
        "metadata": {"labels": labels},
        "spec": {
            "backoffLimit": retries,
            "activeDeadlineSeconds": deadline,
            "template": {
                "metadata": {"labels": labels},
                "spec": kw.restrict_pod(spec, user=user),
            },
        },
    }


def build_script_container(
    script: str, image: str, environment: dict[str, str], mounts: list[kw.Object]
) -> kw.Object:
    """Build the container of a Job: a script of ours, with the programs of the server's image.

    It is mounted at `/scripts`; backups are at `/backups`.
    """
    return {
        "name": script,
        "image": image,
        "command": ["bash", f"/scripts/{script}.sh"],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {"readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *mounts,
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "backups", "mountPath": "/backups"},
        ],
    }


class BackupRecord(msgspec.Struct, frozen=True):
    """What is known of the backups of a database.

    Attributes:
        succeeded: when the last one that can be restored ended, as the API writes times.
        failed: when the last one that failed did.
        reason: why it failed.
    """

    succeeded: str | None = None
    failed: str | None = None
    reason: str = ""


def read_jobs(jobs: Iterable[kw.Object], before: BackupRecord) -> BackupRecord:
    """Bring the record up to date from the Jobs that are there; older ones were removed.

    A backup counts by the end of its Job, which ends well only after the backup was checked.
    """
    succeeded, failed, reason = before.succeeded, before.failed, before.reason
    for job in jobs:
        status = job.get("status") or {}
        if has_ended(job, "Complete"):
            succeeded = max(succeeded or "", status.get("completionTime") or "") or None
        lost = find_condition(status.get("conditions") or [], "Failed")
        if lost and has_ended(job, "Failed") and lost["lastTransitionTime"] > (failed or ""):
            failed, reason = lost["lastTransitionTime"], lost.get("message") or ""
    return BackupRecord(succeeded, failed, reason)


def has_ended(job: kw.Object, type: str) -> bool:
    """Tell whether a Job has ended in a way: Complete, or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or []
    condition = find_condition(conditions, type)
    return condition is not None and condition["status"] == "True"
