"""The objects of a MySQLCluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import kubewright as kw
from database_objects import (
    REPLICA,
    build_backup_schedule,
    build_claim,
    build_job_template,
    build_script_container,
)
from mysql_operator.cluster_models import (
    MySQLCluster,
    build_labels,
    primary_of,
    storage_class_of,
)
from mysql_operator.server import PORT, START_SECONDS, UID, read_script

DATABASE, USER = "app", "app"
ROLE = "mysqlclusters.mysql.example.com/role"
SCRIPTS = ("cluster.sh", "alive.sh", "backup.sh", "restore.sh")
BACKUP, RESTORE = "backup", "restore"
HOUR = 3600


def build_selector(cluster: MySQLCluster) -> dict[str, str]:
    """Return the labels that tell members from all other pods; they never change."""
    return kw.build_instance_labels("mysqlcluster", cluster.metadata.name)


def build_scripts(cluster: MySQLCluster) -> kw.Object:
    """Build the ConfigMap with the scripts of the pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{cluster.metadata.name}-scripts", "labels": build_labels(cluster)},
        "data": {name: read_script(name) for name in SCRIPTS},
    }


def build_services(cluster: MySQLCluster) -> Iterator[kw.Object]:
    """Build the Services: of the primary, of all members by name, and of the copies."""
    name, selector = cluster.metadata.name, build_selector(cluster)
    by_name = {"statefulset.kubernetes.io/pod-name": primary_of(cluster)}
    yield _build_service(cluster, name, {**selector, **by_name})
    peers = _build_service(cluster, f"{name}-pods", selector)
    peers["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    yield peers
    if cluster.spec.replicas > 1:
        yield _build_service(cluster, f"{name}-ro", {**selector, ROLE: REPLICA})


def _build_service(cluster: MySQLCluster, name: str, selector: dict[str, str]) -> kw.Object:
    port = {"name": "mysql", "port": PORT, "targetPort": "mysql", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": build_labels(cluster)},
        "spec": {"selector": selector, "ports": [port]},
    }


def build_disruption_budget(cluster: MySQLCluster) -> kw.Object:
    """Build the budget: one member at a time may go, for its node's sake."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": cluster.metadata.name, "labels": build_labels(cluster)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": build_selector(cluster)}},
    }


def build_stateful_set(cluster: MySQLCluster) -> kw.Object:
    """Build the members: they start at once, and are updated one at a time, the primary last.

    The volumes of copies that are no longer wanted go with them: a new copy is made of the primary.
    """
    labels, selector = build_labels(cluster), build_selector(cluster)
    claim = build_claim("data", cluster.spec.storage.size, storage_class_of(cluster), selector)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": cluster.metadata.name, "labels": labels},
        "spec": {
            "replicas": cluster.spec.replicas,
            "serviceName": f"{cluster.metadata.name}-pods",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": cluster.spec.deletion_policy,
                "whenScaled": "Delete",
            },
            "template": {"metadata": {"labels": labels}, "spec": build_pod(cluster)},
            "volumeClaimTemplates": [{"metadata": claim["metadata"], "spec": claim["spec"]}],
        },
    }


def build_pod(cluster: MySQLCluster) -> kw.Object:
    """Build the pod of a member, at the restricted level."""
    pod: kw.Object = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "securityContext": {
            "runAsGroup": UID,
            "fsGroup": UID,
            "fsGroupChangePolicy": "OnRootMismatch",
        },
        "containers": [build_member(cluster)],
        "volumes": [
            *build_volumes(cluster),
            *({"name": name, "emptyDir": {}} for name in ("run", "tmp")),
        ],
        "topologySpreadConstraints": [
            build_spread(cluster, key)
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
    }
    if cluster.spec.cloud.region:
        pod["affinity"] = {"nodeAffinity": build_region(cluster.spec.cloud.region)}
    return kw.restrict_pod(pod, user=UID)


def build_spread(cluster: MySQLCluster, key: str) -> kw.Object:
    """Prefer as many zones, or nodes, as there are."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": build_selector(cluster)},
    }


def build_region(region: str) -> kw.Object:
    """Prefer the nodes of a region."""
    match = {"key": "topology.kubernetes.io/region", "operator": "In", "values": [region]}
    term = {"weight": 100, "preference": {"matchExpressions": [match]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def build_member(cluster: MySQLCluster) -> kw.Object:
    """Build the container of a member."""
    ask = ["mysql", "--defaults-file=/run/mysqld/probe.cnf", "-e", "SELECT 1"]
    probe = {"exec": {"command": ask}, "timeoutSeconds": 5}
    alive = {"exec": {"command": ["bash", "/scripts/alive.sh"]}, "timeoutSeconds": 10}
    return {
        "name": "mysql",
        "image": image_of(cluster),
        "command": ["bash", "/scripts/cluster.sh"],
        "env": [
            {"name": "PEERS", "value": f"{cluster.metadata.name}-pods"},
            {"name": "DATABASE_NAME", "value": DATABASE},
            {"name": "DATABASE_USER", "value": USER},
        ],
        "ports": [{"name": "mysql", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": START_SECONDS},
        "readinessProbe": {**probe, "periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {**alive, "periodSeconds": 30, "failureThreshold": 3},
        "resources": {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/mysql"},
            {"name": "run", "mountPath": "/run/mysqld"},
            {"name": "tmp", "mountPath": "/tmp"},
            *build_mounts(),
        ],
    }


def image_of(cluster: MySQLCluster) -> str:
    """Return the image of the members."""
    return f"mysql:{cluster.spec.version}"


def build_mounts() -> list[kw.Object]:
    """Build the mounts of what the operator gives to every pod."""
    names = ("scripts", "topology", "secrets")
    return [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in names]


def build_volumes(cluster: MySQLCluster) -> list[kw.Object]:
    """Build the volumes for `build_mounts`."""
    name = cluster.metadata.name
    secret = {"secretName": f"{name}-credentials", "defaultMode": 0o440}
    maps = ("scripts", "topology")
    return [
        *({"name": each, "configMap": {"name": f"{name}-{each}"}} for each in maps),
        {"name": "secrets", "secret": secret},
    ]


def backup_claim(cluster: MySQLCluster) -> str:
    """Return the name of the claim that backups are kept on."""
    return f"{cluster.metadata.name}-backups"


def build_cron_job(cluster: MySQLCluster, component: str, schedule: str) -> kw.Object:
    """Build the CronJob of backups, or that of restores; without a schedule it runs by hand."""
    labels = build_labels(cluster, component)
    claim = {"claimName": backup_claim(cluster)}
    pod = {
        "containers": [build_script(cluster, component)],
        "volumes": [
            *build_volumes(cluster),
            {"name": "tmp", "emptyDir": {}},
            {"name": "backups", "persistentVolumeClaim": claim},
        ],
    }
    retries = 2 if component == BACKUP else 0
    template = build_job_template(labels, pod, user=UID, retries=retries, deadline=6 * HOUR)
    name = f"{cluster.metadata.name}-{component}"
    return build_backup_schedule(name, labels, schedule, template)


def build_script(cluster: MySQLCluster, component: str) -> kw.Object:
    """Build the container of a Job, with the server's own programs."""
    environment = {
        "DATABASE_HOST": cluster.metadata.name,
        "DATABASE_NAME": DATABASE,
        "DATABASE_UID": cluster.metadata.uid,
        "BACKUP_RETENTION": str(cluster.spec.backup.retention),
    }
    return build_script_container(component, image_of(cluster), environment, build_mounts())
