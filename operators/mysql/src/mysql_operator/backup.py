"""Backups and their way back: CronJobs, the backup before an upgrade, and what Jobs tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

import kubewright as kw
from kubewright.api import find_condition
from mysql_operator.models import MySQL
from mysql_operator.server import (
    UID,
    build_group,
    build_labels,
    build_mounts,
    build_volumes,
    object_name,
)

BACKUP, RESTORE = "backup", "restore"
TARGET = "operators.example.com/before-version"
NEVER = "0 0 1 1 *"
HOUR = 3600


def backup_claim(db: MySQL) -> str:
    """Return the name of the claim that backups are kept on."""
    return f"mysql-backups-{db.metadata.name}"


def build_schedule(db: MySQL, version: str) -> kw.Object:
    """Build the CronJob that makes backups; without a schedule it only runs by hand."""
    return _build_cron_job(db, BACKUP, db.spec.backup_schedule, version)


def build_restore(db: MySQL, version: str) -> kw.Object:
    """Build the CronJob that never runs by itself: `kubectl create job --from` runs it."""
    return _build_cron_job(db, RESTORE, "", version)


def _build_cron_job(db: MySQL, component: str, schedule: str, version: str) -> kw.Object:
    spec: kw.Object = {
        "schedule": schedule or NEVER,
        "timeZone": "Etc/UTC",
        "suspend": not schedule,
        "concurrencyPolicy": "Forbid",
        # Without it, a schedule that was missed a hundred times is never taken up again.
        "startingDeadlineSeconds": 600,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": build_job_template(db, component, version),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": f"mysql-{component}-{db.metadata.name}",
            "labels": build_labels(db, component),
        },
        "spec": spec,
    }


def build_upgrade_backup(db: MySQL, running: str, target: str) -> kw.Object:
    """Build the Job that makes the backup before another version starts."""
    template = build_job_template(db, BACKUP, running)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"mysql-upgrade-{db.metadata.name}-{target.replace('.', '-')}",
            "labels": {**template["metadata"]["labels"], TARGET: target},
        },
        "spec": template["spec"],
    }


def build_job_template(db: MySQL, component: str, version: str) -> kw.Object:
    """Build the template of a Job that runs a script of ours in the server's own image."""
    labels = build_labels(db, component)
    pod = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": build_group(),
        "containers": [build_container(db, component, version)],
        "volumes": [
            *build_volumes(db),
            {"name": "tmp", "emptyDir": {}},
            {"name": "backups", "persistentVolumeClaim": {"claimName": backup_claim(db)}},
        ],
    }
    return {
        "metadata": {"labels": labels},
        "spec": {
            "backoffLimit": 2 if component == BACKUP else 0,
            "activeDeadlineSeconds": 6 * HOUR,
            "template": {
                "metadata": {"labels": labels},
                "spec": kw.restrict_pod(pod, user=UID),
            },
        },
    }


def build_container(db: MySQL, component: str, version: str) -> kw.Object:
    """Build the container of a Job."""
    return {
        "name": component,
        "image": f"mysql:{version}",
        "command": ["bash", f"/scripts/{component}.sh"],
        "env": [
            {"name": "DATABASE_HOST", "value": object_name(db)},
            {"name": "DATABASE_NAME", "value": db.spec.database_name},
            {"name": "DATABASE_UID", "value": db.metadata.uid},
            {"name": "BACKUP_RETENTION", "value": str(db.spec.backup_retention)},
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {"readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *build_mounts(),
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "backups", "mountPath": "/backups"},
        ],
    }


class BackupRecord(msgspec.Struct, frozen=True):
    """What is known of the backups. Times are as the API writes them."""

    succeeded: str | None = None
    failed: str | None = None
    reason: str = ""


def read_jobs(jobs: Iterable[kw.Object], before: BackupRecord) -> BackupRecord:
    """Bring the record up to date from the Jobs that are there; older ones were removed.

    A backup counts by the end of its Job, which ends well only after the backup was checked.
    """
    succeeded, failed, reason = before.succeeded, before.failed, before.reason
    for job in jobs:
        if is_true(job, "Complete"):
            succeeded = max(succeeded or "", job["status"].get("completionTime") or "") or None
        if is_true(job, "Failed"):
            condition = find_condition(job["status"]["conditions"], "Failed") or {}
            if condition["lastTransitionTime"] > (failed or ""):
                failed, reason = condition["lastTransitionTime"], condition.get("message") or ""
    return BackupRecord(succeeded, failed, reason)


def is_true(job: kw.Object, type: str) -> bool:
    """Tell whether a Job has ended in a way."""
    conditions = (job.get("status") or {}).get("conditions") or []
    condition = find_condition(conditions, type)
    return condition is not None and condition["status"] == "True"


def is_backed_up(jobs: Iterable[kw.Object], target: str) -> bool:
    """Tell whether the backup before a version is there."""
    return any(
        (job["metadata"].get("labels") or {}).get(TARGET) == target and is_true(job, "Complete")
        for job in jobs
    )
