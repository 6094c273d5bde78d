"""Backups, their way back, and the backup before an upgrade. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import kubewright as kw
from database_objects import (
    build_backup_schedule,
    build_job_template,
    build_script_container,
    has_ended,
)
from mysql_operator.models import MySQL
from mysql_operator.server import (
    UID,
    build_labels,
    build_mounts,
    build_volumes,
    object_name,
)

BACKUP, RESTORE = "backup", "restore"
TARGET = "operators.example.com/before-version"
HOUR = 3600


def backup_claim(db: MySQL) -> str:
    """Return the name of the claim that backups are kept on."""
    return f"mysql-backups-{db.metadata.name}"


def build_cron_job(db: MySQL, component: str, schedule: str, version: str) -> kw.Object:
    """Build the CronJob of backups, or that of restores; without a schedule it runs by hand."""
    name = f"mysql-{component}-{db.metadata.name}"
    template = build_job(db, component, version)
    return build_backup_schedule(name, build_labels(db, component), schedule, template)


def build_upgrade_backup(db: MySQL, running: str, target: str) -> kw.Object:
    """Build the Job that makes the backup before another version starts."""
    template = build_job(db, BACKUP, running)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"mysql-upgrade-{db.metadata.name}-{target.replace('.', '-')}",
            "labels": {**template["metadata"]["labels"], TARGET: target},
        },
        "spec": template["spec"],
    }


def build_job(db: MySQL, component: str, version: str) -> kw.Object:
    """Build the template of a Job that runs a script of ours in the server's own image."""
    pod = {
        "containers": [build_container(db, component, version)],
        "volumes": [
            *build_volumes(db),
            {"name": "tmp", "emptyDir": {}},
            {"name": "backups", "persistentVolumeClaim": {"claimName": backup_claim(db)}},
        ],
    }
    retries = 2 if component == BACKUP else 0
    labels = build_labels(db, component)
    return build_job_template(labels, pod, user=UID, retries=retries, deadline=6 * HOUR)


def build_container(db: MySQL, component: str, version: str) -> kw.Object:
    """Build the container of a Job."""
    environment = {
        "DATABASE_HOST": object_name(db),
        "DATABASE_NAME": db.spec.database_name,
        "DATABASE_UID": db.metadata.uid,
        "BACKUP_RETENTION": str(db.spec.backup_retention),
    }
    return build_script_container(component, f"mysql:{version}", environment, build_mounts())


def is_backed_up(jobs: Iterable[kw.Object], target: str) -> bool:
    """Tell whether the backup before a version is there."""
    return any(
        (job["metadata"].get("labels") or {}).get(TARGET) == target and has_ended(job, "Complete")
        for job in jobs
    )
