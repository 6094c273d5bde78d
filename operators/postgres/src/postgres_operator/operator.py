"""The operator: what should exist for a Database, and what its status says."""

from __future__ import annotations

from collections.abc import Iterable

import kubewright as kw
from database_objects import (
    BackupRecord,
    build_claim,
    grow_volumes,
    is_rolled_out,
    label_instances,
    read_jobs,
)
from kubewright.api import builtin
from postgres_operator.backup import BACKUP, backup_claim, build_restore, build_schedule
from postgres_operator.credentials import ensure_credentials
from postgres_operator.instances import VOLUME, build_stateful_set, image
from postgres_operator.labels import (
    ROLE,
    build_labels,
    build_selector,
    primary_name,
)
from postgres_operator.models import TIERS, Database, DatabaseStatus
from postgres_operator.services import (
    build_disruption_budget,
    build_peers,
    build_read_only_service,
    build_service,
)
from postgres_operator.settings import build_configuration, build_scripts

operator = kw.Operator("postgres-operator")

# Pods, claims and Jobs belong to other objects: their labels lead back to the database.
_pods = kw.Watch(builtin.POD, kw.map_to_instance)
_claims = kw.Watch(builtin.PERSISTENT_VOLUME_CLAIM, kw.map_to_instance)
_jobs = kw.Watch(builtin.JOB, kw.map_to_instance)

OWNED: list[kw.Resource | kw.ChildKind] = [
    builtin.CONFIG_MAP,
    builtin.SERVICE,
    builtin.STATEFUL_SET,
    builtin.POD_DISRUPTION_BUDGET,
    builtin.CRON_JOB,
    kw.ChildKind(builtin.PERSISTENT_VOLUME_CLAIM, on_removal="keep"),
]


@operator.prepare(Database, owns=[builtin.SECRET], watches=[_claims])
async def prepare(db: Database, ctx: kw.Context) -> None:
    """Make passwords and the topology once; let volumes grow."""
    await ensure_credentials(db, ctx)
    key = kw.NamespacedName(db.metadata.namespace, db.metadata.name)
    await grow_volumes(ctx, key, build_selector(db), VOLUME, db.spec.storage)


@operator.desired(Database, owns=OWNED)
def build_children(db: Database) -> Iterable[kw.Object]:
    """Build the objects of a database."""
    yield build_scripts(db)
    yield build_configuration(db)
    yield build_peers(db)
    yield build_service(db)
    yield build_stateful_set(db)
    if TIERS[db.spec.size].instances > 1:
        yield build_read_only_service(db)
        yield build_disruption_budget(db)
    if db.spec.backup_enabled:
        spec, labels = db.spec, build_labels(db, BACKUP)
        yield build_claim(backup_claim(db), spec.backup_storage, spec.storage_class, labels)
        yield build_schedule(db)
        yield build_restore(db)


@operator.reconcile(Database, watches=[_pods])
async def label(db: Database, ctx: kw.Context) -> None:
    """Label each instance with its role, and note that the primary has come to be."""
    await label_instances(ctx, db.metadata.namespace, build_selector(db), ROLE, primary_name(db))


@operator.status(Database, watches=[_jobs])
def build_status(db: Database, children: kw.Children) -> DatabaseStatus:
    """Compute the status from the StatefulSet and the Jobs of backups."""
    stateful_set = children.get(builtin.STATEFUL_SET, db.metadata.name) or {}
    counts = stateful_set.get("status") or {}
    wanted, ready = TIERS[db.spec.size].instances, counts.get("readyReplicas") or 0
    is_current = is_rolled_out(stateful_set)
    host = f"{db.metadata.namespace}.svc.cluster.local"
    record = read_jobs(children.find(builtin.JOB, build_labels(db, BACKUP)), read_record(db))
    return DatabaseStatus(
        ready=is_current and ready == wanted,
        phase=find_phase(db, is_current=is_current, is_whole=ready == wanted),
        endpoint=f"{db.metadata.name}.{host}",
        read_only_endpoint=f"{db.metadata.name}-ro.{host}" if wanted > 1 else "",
        version=image(db).partition(":")[2] if is_current and ready else db.status.version,
        replicas=counts.get("replicas") or 0,
        ready_replicas=ready,
        primary=primary_name(db) if stateful_set else "",
        replication="asynchronous" if wanted > 1 else "",
        last_successful_backup=record.succeeded,
        last_failed_backup=record.failed,
        failed_backup_reason=record.reason,
    )


def find_phase(db: Database, *, is_current: bool, is_whole: bool) -> str:
    """Return the word for where the database is."""
    if is_current and is_whole:
        return "Running"
    return "Updating" if db.status.version else "Creating"


def read_record(db: Database) -> BackupRecord:
    """Return what was known of the backups: Jobs are removed in time."""
    status = db.status
    return BackupRecord(
        status.last_successful_backup, status.last_failed_backup, status.failed_backup_reason
    )
