"""The operator: what should exist for a MySQL, and what its status says."""

from __future__ import annotations

from collections.abc import Iterable

import kubewright as kw
from database_objects import BackupRecord, build_claim, read_jobs
from kubewright.api import builtin
from kubewright.api.errors import NotFound
from mysql_operator.backup import (
    BACKUP,
    RESTORE,
    backup_claim,
    build_cron_job,
    build_upgrade_backup,
    is_backed_up,
)
from mysql_operator.credentials import ensure_secret
from mysql_operator.models import MySQL, MySQLStatus, compare_versions
from mysql_operator.server import (
    build_deployment,
    build_labels,
    build_scripts,
    build_service,
    data_claim,
    object_name,
)

operator = kw.Operator("mysql-operator")

_jobs = kw.Watch(builtin.JOB, kw.map_to_instance)

OWNED: list[kw.Resource | kw.ChildKind] = [
    builtin.CONFIG_MAP,
    builtin.SERVICE,
    builtin.DEPLOYMENT,
    builtin.CRON_JOB,
    builtin.JOB,
    kw.ChildKind(builtin.PERSISTENT_VOLUME_CLAIM, on_removal="keep"),
]


@operator.validate(MySQL)
def check_version(new: MySQL, old: MySQL | None) -> None:
    """Refuse a version that is older than the one whose files are on the volume."""
    running = new.status.version
    if running and compare_versions(new.spec.mysql_version) < compare_versions(running):
        raise ValueError(
            f"mysqlVersion: {new.spec.mysql_version} is older than {running}, which has run on "
            "this volume: a server cannot go back. Make a new MySQL and restore a backup into it"
        )


@operator.prepare(MySQL, owns=[builtin.SECRET])
async def prepare(db: MySQL, ctx: kw.Context) -> None:
    """Make the passwords once."""
    await ensure_secret(db, ctx)


@operator.desired(MySQL, owns=OWNED)
def build_children(db: MySQL) -> Iterable[kw.Object]:
    """Build the objects of a server.

    Another version starts when the status says so: after a backup that the one before it made.
    """
    version = db.status.version or db.spec.mysql_version
    yield build_scripts(db)
    yield build_service(db)
    spec, labels = db.spec, build_labels(db)
    yield build_claim(data_claim(db), spec.storage_size, spec.storage_class, labels)
    yield build_claim(backup_claim(db), spec.backup_storage_size, spec.storage_class, labels)
    yield build_deployment(db, version)
    yield build_cron_job(db, BACKUP, spec.backup_schedule, version)
    yield build_cron_job(db, RESTORE, "", version)
    if version != db.spec.mysql_version:
        yield build_upgrade_backup(db, version, db.spec.mysql_version)


@operator.status(MySQL, watches=[_jobs])
def build_status(db: MySQL, children: kw.Children) -> MySQLStatus:
    """Compute the status from the Deployment and the Jobs of backups."""
    deployment = children.get(builtin.DEPLOYMENT, object_name(db)) or {}
    jobs = children.find(builtin.JOB, build_labels(db, BACKUP))
    running, target = db.status.version, db.spec.mysql_version
    if not running or is_backed_up(jobs, target):
        running = target
    ready = is_rolled_out(deployment, running)
    phase, message = find_phase(db, running, is_ready=ready)
    known = db.status
    record = read_jobs(
        jobs,
        BackupRecord(known.last_backup, known.last_failed_backup, known.failed_backup_reason),
    )
    return MySQLStatus(
        phase=phase,
        message=message,
        ready=ready and running == target,
        endpoint=f"{object_name(db)}.{db.metadata.namespace}.svc.cluster.local",
        version=running,
        last_backup=record.succeeded,
        last_failed_backup=record.failed,
        failed_backup_reason=record.reason,
    )


def is_rolled_out(deployment: kw.Object, version: str) -> bool:
    """Tell whether the pod of a version is ready."""
    status = deployment.get("status")
    if not status or status.get("observedGeneration") != deployment["metadata"]["generation"]:
        return False
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    counts = [status.get(field) or 0 for field in ("updatedReplicas", "readyReplicas", "replicas")]
    return image == f"mysql:{version}" and counts == [1, 1, 1]


def find_phase(db: MySQL, running: str, *, is_ready: bool) -> tuple[str, str]:
    """Return the word for where the server is, and what it waits for."""
    target = db.spec.mysql_version
    if running != target:
        return "BackingUp", f"version {target} starts after the backup that {running} makes"
    if is_ready:
        return "Running", ""
    if db.status.last_backup and db.status.phase in ("BackingUp", "Upgrading"):
        return "Upgrading", f"the server of version {target} is not ready yet"
    return "Creating", "the server is not ready yet"


@operator.finalize(MySQL)
async def clean_up(db: MySQL, ctx: kw.Context) -> None:
    """Delete the volumes, where that was asked for; else they stay."""
    if db.spec.deletion_policy != "Delete":
        return
    for name in (data_claim(db), backup_claim(db)):
        key = kw.NamespacedName(db.metadata.namespace, name)
        try:
            await ctx.delete(builtin.PERSISTENT_VOLUME_CLAIM, key)
        except NotFound:
            ctx.logger.debug("claim %s is gone already", name)
