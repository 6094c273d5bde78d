"""Backups and their way back: CronJobs, and what their Jobs tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

import kubewright as kw
from kubewright.api import find_condition
from postgres_operator.instances import (
    build_container_security,
    build_mounts,
    build_pod_security,
    build_scratch,
    build_volumes,
    image,
)
from postgres_operator.labels import build_labels
from postgres_operator.models import Database

COMPONENT = "backup"
HOURS = 3600


def build_backup_claim(db: Database) -> kw.Object:
    """Build the claim of the volume that backups are kept on."""
    spec: kw.Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": db.spec.backup_storage}},
    }
    if db.spec.storage_class:
        spec["storageClassName"] = db.spec.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{db.metadata.name}-backups", "labels": build_labels(db, COMPONENT)},
        "spec": spec,
    }


def build_backup_schedule(db: Database) -> kw.Object:
    """Build the CronJob that makes backups."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": f"{db.metadata.name}-backup", "labels": build_labels(db, COMPONENT)},
        "spec": {
            "schedule": db.spec.backup_schedule,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            # Without it, a schedule that was missed a hundred times is never taken up again.
            "startingDeadlineSeconds": 600,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": build_job(db, COMPONENT, deadline=6 * HOURS, retries=2),
        },
    }


def build_restore(db: Database) -> kw.Object:
    """Build the CronJob that never runs by itself: `kubectl create job --from` runs it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": f"{db.metadata.name}-restore", "labels": build_labels(db, "restore")},
        "spec": {
            "schedule": "0 0 1 1 *",
            "timeZone": "Etc/UTC",
            "suspend": True,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": build_job(db, "restore", deadline=24 * HOURS, retries=0),
        },
    }


def build_job(db: Database, component: str, *, deadline: int, retries: int) -> kw.Object:
    """Build the template of a Job that runs a script of ours."""
    labels = build_labels(db, component)
    pod = {
        **build_pod_security(),
        "restartPolicy": "Never",
        "containers": [build_container(db, component)],
        "volumes": [
            *build_volumes(db),
            *build_scratch("tmp"),
            {
                "name": "backups",
                "persistentVolumeClaim": {"claimName": f"{db.metadata.name}-backups"},
            },
        ],
    }
    return {
        "metadata": {"labels": labels},
        "spec": {
            "backoffLimit": retries,
            "activeDeadlineSeconds": deadline,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def build_container(db: Database, component: str) -> kw.Object:
    """Build the container: the server's own image, whose programs fit the server."""
    return {
        "name": component,
        "image": image(db),
        "command": ["bash", f"/scripts/{component}.sh"],
        "env": [
            {"name": "DATABASE_HOST", "value": db.metadata.name},
            {"name": "DATABASE_NAME", "value": db.spec.database},
            {"name": "DATABASE_UID", "value": db.metadata.uid},
            {"name": "BACKUP_RETENTION", "value": str(db.spec.backup_retention)},
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": build_container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *build_mounts(),
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "backups", "mountPath": "/backups"},
        ],
    }


class BackupRecord(msgspec.Struct, frozen=True):
    """What is known of the backups of a database. Times are as the API writes them."""

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
        conditions = status.get("conditions") or []
        if (done := find_condition(conditions, "Complete")) and done["status"] == "True":
            succeeded = max(succeeded or "", status.get("completionTime") or "") or None
        if (lost := find_condition(conditions, "Failed")) and lost["status"] == "True":
            ended = lost["lastTransitionTime"]
            if ended > (failed or ""):
                failed, reason = ended, lost.get("message") or ""
    return BackupRecord(succeeded, failed, reason)
