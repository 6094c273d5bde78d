"""What the operator does for a MySQLCluster, and what its status says."""

from __future__ import annotations

from collections.abc import Iterable

import kubewright as kw
from database_objects import (
    BackupRecord,
    build_claim,
    ensure_object,
    generate_password,
    grow_volumes,
    is_rolled_out,
    label_instances,
    read_jobs,
)
from kubewright.api import builtin
from mysql_operator.cluster import (
    BACKUP,
    DATABASE,
    RESTORE,
    ROLE,
    USER,
    backup_claim,
    build_cron_job,
    build_disruption_budget,
    build_scripts,
    build_selector,
    build_services,
    build_stateful_set,
)
from mysql_operator.cluster_models import (
    MySQLCluster,
    MySQLClusterStatus,
    build_labels,
    primary_of,
    storage_class_of,
)
from mysql_operator.operator import operator

_pods = kw.Watch(builtin.POD, kw.map_to_instance)
_claims = kw.Watch(builtin.PERSISTENT_VOLUME_CLAIM, kw.map_to_instance)
_jobs = kw.Watch(builtin.JOB, kw.map_to_instance)
WORDS = ("password", "root-password", "backup-password", "restore-password", "replication-password")

OWNED: list[kw.Resource | kw.ChildKind] = [
    builtin.CONFIG_MAP,
    builtin.SERVICE,
    builtin.STATEFUL_SET,
    builtin.POD_DISRUPTION_BUDGET,
    builtin.CRON_JOB,
    kw.ChildKind(builtin.PERSISTENT_VOLUME_CLAIM, on_removal="keep"),
]


@operator.prepare(MySQLCluster, owns=[builtin.SECRET], watches=[_claims])
async def prepare(cluster: MySQLCluster, ctx: kw.Context) -> None:
    """Make passwords and the topology once; let volumes grow."""
    name, metadata = cluster.metadata.name, {"labels": build_labels(cluster)}
    access = {"username": USER, "database": DATABASE}
    passwords = {**access, **{word: generate_password() for word in WORDS}}
    topology = {"primary": primary_of(cluster), "initialized": "false"}
    for kind, suffix, content in (
        (builtin.SECRET, "credentials", {"stringData": passwords}),
        (builtin.CONFIG_MAP, "topology", {"data": topology}),
    ):
        await ensure_object(
            cluster, ctx, kind, f"{name}-{suffix}", {"metadata": metadata, **content}
        )
    key = kw.NamespacedName(cluster.metadata.namespace, name)
    await grow_volumes(ctx, key, build_selector(cluster), "data", cluster.spec.storage.size)


@operator.desired(MySQLCluster, owns=OWNED)
def build_children(cluster: MySQLCluster) -> Iterable[kw.Object]:
    """Build the objects of a cluster."""
    yield build_scripts(cluster)
    yield from build_services(cluster)
    yield build_stateful_set(cluster)
    if cluster.spec.replicas > 1:
        yield build_disruption_budget(cluster)
    size, labels = cluster.spec.backup.storage_size, build_labels(cluster, BACKUP)
    yield build_claim(backup_claim(cluster), size, storage_class_of(cluster), labels)
    yield build_cron_job(cluster, BACKUP, cluster.spec.backup.schedule)
    yield build_cron_job(cluster, RESTORE, "")


@operator.reconcile(MySQLCluster, watches=[_pods])
async def label_members(cluster: MySQLCluster, ctx: kw.Context) -> None:
    """Label each member with its role, and note that the primary has come to be."""
    namespace, primary = cluster.metadata.namespace, primary_of(cluster)
    await label_instances(ctx, namespace, build_selector(cluster), ROLE, primary)


@operator.status(MySQLCluster, reads=[builtin.STORAGE_CLASS], watches=[_jobs])
def build_status(cluster: MySQLCluster, children: kw.Children) -> MySQLClusterStatus:
    """Compute the status from the StatefulSet, its claims and the Jobs of backups."""
    live = children.get(builtin.STATEFUL_SET, cluster.metadata.name) or {}
    counts = live.get("status") or {}
    wanted, ready = cluster.spec.replicas, counts.get("readyReplicas") or 0
    is_current = is_rolled_out(live)
    known = cluster.status
    record = read_jobs(
        children.find(builtin.JOB, build_labels(cluster, BACKUP)),
        BackupRecord(
            known.last_successful_backup, known.last_failed_backup, known.failed_backup_reason
        ),
    )
    claims = children.find(builtin.PERSISTENT_VOLUME_CLAIM, build_selector(cluster))
    bound = [claim for claim in claims if (claim.get("status") or {}).get("phase") == "Bound"]
    host = f"{cluster.metadata.namespace}.svc.cluster.local"
    is_whole = is_current and ready == wanted
    return MySQLClusterStatus(
        phase="Running" if is_whole else "Updating" if known.version else "Creating",
        replicas=f"{ready}/{wanted}",
        members=counts.get("replicas") or 0,
        selector=kw.format_selector(build_selector(cluster)),
        storage_provisioned=len(bound) >= wanted,
        primary=primary_of(cluster) if live else "",
        replication="asynchronous" if wanted > 1 else "",
        endpoint=f"{cluster.metadata.name}.{host}",
        read_only_endpoint=f"{cluster.metadata.name}-ro.{host}" if wanted > 1 else "",
        version=cluster.spec.version if is_current and ready else known.version,
        message=find_storage_problem(cluster, children),
        last_successful_backup=record.succeeded,
        last_failed_backup=record.failed,
        failed_backup_reason=record.reason,
    )


def find_storage_problem(cluster: MySQLCluster, children: kw.Children) -> str:
    """Say what is missing of the storage class; empty where nothing is."""
    name, wanted = storage_class_of(cluster), cluster.spec.storage.parameters
    if not name:
        return ""
    classes = children.find(builtin.STORAGE_CLASS, {})
    found = next((each for each in classes if each["metadata"]["name"] == name), None)
    if found is None:
        return f"storage class {name} does not exist: create it, or name another in a new cluster"
    given = found.get("parameters") or {}
    lacking = [f"{key}={value}" for key, value in wanted.items() if given.get(key) != value]
    if lacking:
        return f"storage class {name} has other parameters than {', '.join(sorted(lacking))}"
    return ""
