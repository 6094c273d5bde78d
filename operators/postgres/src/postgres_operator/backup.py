"""Backups and their way back: CronJobs. Pure."""

from __future__ import annotations

import kubewright as kw
from database_objects import build_backup_schedule, build_job_template, build_script_container
from postgres_operator.instances import UID, build_mounts, build_scratch, build_volumes, image
from postgres_operator.labels import build_labels
from postgres_operator.models import Database

BACKUP, RESTORE = "backup", "restore"
HOUR = 3600


def backup_claim(db: Database) -> str:
    """Return the name of the claim that backups are kept on."""
    return f"{db.metadata.name}-backups"


def build_schedule(db: Database) -> kw.Object:
    """Build the CronJob that makes backups."""
    template = build_job(db, BACKUP, deadline=6 * HOUR, retries=2)
    name, labels = f"{db.metadata.name}-backup", build_labels(db, BACKUP)
    return build_backup_schedule(name, labels, db.spec.backup_schedule, template)


def build_restore(db: Database) -> kw.Object:
    """Build the CronJob that never runs by itself: `kubectl create job --from` runs it."""
    template = build_job(db, RESTORE, deadline=24 * HOUR, retries=0)
    name, labels = f"{db.metadata.name}-restore", build_labels(db, RESTORE)
    return build_backup_schedule(name, labels, "", template)


def build_job(db: Database, component: str, *, deadline: int, retries: int) -> kw.Object:
    """Build the template of a Job that runs a script of ours."""
    pod = {
        "containers": [build_container(db, component)],
        "volumes": [
            *build_volumes(db),
            *build_scratch("tmp"),
            {"name": "backups", "persistentVolumeClaim": {"claimName": backup_claim(db)}},
        ],
    }
    labels = build_labels(db, component)
    return build_job_template(labels, pod, user=UID, retries=retries, deadline=deadline)


def build_container(db: Database, component: str) -> kw.Object:
    """Build the container: the server's own image, whose programs fit the server."""
    environment = {
        "DATABASE_HOST": db.metadata.name,
        "DATABASE_NAME": db.spec.database,
        "DATABASE_UID": db.metadata.uid,
        "BACKUP_RETENTION": str(db.spec.backup_retention),
    }
    return build_script_container(component, image(db), environment, build_mounts())
