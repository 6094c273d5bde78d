"""The instances: a StatefulSet whose pods run the stock image with our start script. Pure."""

from __future__ import annotations

import kubewright as kw
from database_objects import build_claim
from postgres_operator.labels import build_labels, build_selector
from postgres_operator.models import TIERS, Database
from postgres_operator.services import PORT

UID = 999  # the user of the docker-library image
MOUNT = "/var/lib/postgresql/data"
DATA = f"{MOUNT}/pgdata"
VOLUME = "data"
# Making a cluster, recovering from a crash and copying a primary may take long.
START_SECONDS = 24 * 3600


def build_stateful_set(db: Database) -> kw.Object:
    """Build the StatefulSet.

    All instances start at once, for a copy waits for its primary by itself. They are updated one at
    a time, the primary last. The volumes of copies that are no longer wanted go with them: a new
    copy is made of the primary.
    """
    tier = TIERS[db.spec.size]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": db.metadata.name, "labels": build_labels(db)},
        "spec": {
            "replicas": tier.instances,
            "serviceName": f"{db.metadata.name}-pods",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": build_selector(db)},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": db.spec.deletion_policy,
                "whenScaled": "Delete",
            },
            "template": {"metadata": {"labels": build_labels(db)}, "spec": build_pod_spec(db)},
            "volumeClaimTemplates": [build_volume_claim(db)],
        },
    }


def build_volume_claim(db: Database) -> kw.Object:
    """Build the template of the claim of each instance's volume."""
    claim = build_claim(VOLUME, db.spec.storage, db.spec.storage_class, build_selector(db))
    return {"metadata": claim["metadata"], "spec": claim["spec"]}


def build_pod_spec(db: Database) -> kw.Object:
    """Build the pod, which fits the restricted Pod Security Standard."""
    group = {"runAsGroup": UID, "fsGroup": UID, "fsGroupChangePolicy": "OnRootMismatch"}
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "securityContext": group,
        "containers": [build_container(db)],
        "volumes": [*build_volumes(db), *build_scratch("run", "tmp")],
        "affinity": {"podAntiAffinity": build_spread(db)},
    }
    return kw.restrict_pod(pod, user=UID)


def build_spread(db: Database) -> kw.Object:
    """Prefer a node of its own for each instance."""
    term = {
        "labelSelector": {"matchLabels": build_selector(db)},
        "topologyKey": "kubernetes.io/hostname",
    }
    wished = {"weight": 100, "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [wished]}


def build_container(db: Database) -> kw.Object:
    """Build the container of the server."""
    tier = TIERS[db.spec.size]
    limits = {"cpu": tier.cpu, "memory": tier.memory}
    ready = {"exec": {"command": ["pg_isready", "--quiet", "--host=127.0.0.1"]}}
    alive = {"exec": {"command": ["bash", "/scripts/alive.sh"]}}
    return {
        "name": "postgres",
        "image": image(db),
        "command": ["bash", "/scripts/run.sh"],
        "env": [
            {"name": "PGDATA", "value": DATA},
            {"name": "PEERS", "value": f"{db.metadata.name}-pods"},
            {"name": "DATABASE_NAME", "value": db.spec.database},
            {"name": "DATABASE_OWNER", "value": db.spec.owner},
        ],
        "ports": [{"name": "postgres", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": {**ready, "periodSeconds": 1, "failureThreshold": START_SECONDS},
        "readinessProbe": {**ready, "periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {
            **alive,
            "periodSeconds": 30,
            "timeoutSeconds": 10,
            "failureThreshold": 3,
        },
        # Memory is kept for it; idle processor time is for others until it is needed.
        "resources": {"requests": {**limits, "cpu": tier.cpu_request}, "limits": limits},
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": VOLUME, "mountPath": MOUNT},
            {"name": "run", "mountPath": "/run/postgresql"},
            {"name": "tmp", "mountPath": "/tmp"},
            *build_mounts(),
        ],
    }


def image(db: Database) -> str:
    """Return the image of the server."""
    return f"postgres:{db.spec.version}"


def build_mounts() -> list[kw.Object]:
    """Build the mounts of what the operator gives to every pod: folders, which follow changes."""
    names = ("scripts", "config", "topology", "secrets", "app")
    return [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in names]


def build_volumes(db: Database) -> list[kw.Object]:
    """Build the volumes for `build_mounts`."""
    name = db.metadata.name
    maps = ("scripts", "config", "topology")
    secrets = {"secrets": f"{name}-credentials", "app": f"{name}-app"}
    return [
        *({"name": each, "configMap": {"name": f"{name}-{each}"}} for each in maps),
        *(
            {"name": each, "secret": {"secretName": secret, "defaultMode": 0o440}}
            for each, secret in secrets.items()
        ),
    ]


def build_scratch(*names: str) -> list[kw.Object]:
    """Build the volumes that end with their pod."""
    return [{"name": name, "emptyDir": {}} for name in names]
