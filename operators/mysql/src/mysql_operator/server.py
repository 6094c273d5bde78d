"""The server: a Deployment of one pod with a volume, and what leads to it. Pure."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import kubewright as kw
from mysql_operator.models import MySQL

PORT = 3306
UID = 999  # the user of the docker-library image
SCRIPTS = ("run.sh", "backup.sh", "restore.sh")
# Recovery after a crash may take long.
START_SECONDS = 24 * 3600


def object_name(db: MySQL) -> str:
    """Return the name of the Deployment and the Service."""
    return f"mysql-{db.metadata.name}"


def build_selector(db: MySQL) -> dict[str, str]:
    """Return the labels that tell this server's pod from all others; they never change."""
    return kw.build_instance_labels("mysql", db.metadata.name)


def build_labels(db: MySQL, component: str = "") -> dict[str, str]:
    """Return the labels that objects carry; those of Jobs do not match the selector."""
    app = f"mysql-{component}" if component else "mysql"
    return {
        **kw.build_instance_labels(app, db.metadata.name),
        "app.kubernetes.io/managed-by": "mysql-operator",
    }


@cache
def read_script(name: str) -> str:
    """Return a file that lies beside this module."""
    return files("mysql_operator").joinpath("scripts", name).read_text()


def build_scripts(db: MySQL) -> kw.Object:
    """Build the ConfigMap with the scripts of the pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"mysql-scripts-{db.metadata.name}", "labels": build_labels(db)},
        "data": {name: read_script(name) for name in SCRIPTS},
    }


def build_service(db: MySQL) -> kw.Object:
    """Build the Service of clients."""
    port = {"name": "mysql", "port": PORT, "targetPort": "mysql", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": object_name(db), "labels": build_labels(db)},
        "spec": {"selector": build_selector(db), "ports": [port]},
    }


def data_claim(db: MySQL) -> str:
    """Return the name of the claim of the data."""
    return f"mysql-data-{db.metadata.name}"


def build_deployment(db: MySQL, version: str) -> kw.Object:
    """Build the Deployment. Two servers on one volume would destroy it: the old one goes first."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": object_name(db), "labels": build_labels(db)},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": build_selector(db)},
            "template": {"metadata": {"labels": build_labels(db)}, "spec": build_pod(db, version)},
        },
    }


def build_pod(db: MySQL, version: str) -> kw.Object:
    """Build the pod of the server."""
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "securityContext": build_group(),
        "containers": [build_container(db, version)],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": data_claim(db)}},
            *build_volumes(db),
            *({"name": name, "emptyDir": {}} for name in ("run", "tmp")),
        ],
    }
    return kw.restrict_pod(pod, user=UID)


def build_group() -> kw.Object:
    """Build what gives the volumes to the server's group."""
    return {"runAsGroup": UID, "fsGroup": UID, "fsGroupChangePolicy": "OnRootMismatch"}


def build_container(db: MySQL, version: str) -> kw.Object:
    """Build the container of the server."""
    # A ping also succeeds where the login is refused.
    ask = ["mysql", "--defaults-file=/run/mysqld/probe.cnf", "-e", "SELECT 1"]
    probe = {"exec": {"command": ask}, "timeoutSeconds": 5}
    return {
        "name": "mysql",
        "image": f"mysql:{version}",
        "command": ["bash", "/scripts/run.sh"],
        "env": [
            {"name": "DATABASE_NAME", "value": db.spec.database_name},
            {"name": "DATABASE_USER", "value": db.spec.database_user},
        ],
        "ports": [{"name": "mysql", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": START_SECONDS},
        "readinessProbe": {**probe, "periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {"tcpSocket": {"port": "mysql"}, "periodSeconds": 10},
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


def build_mounts() -> list[kw.Object]:
    """Build the mounts of scripts and passwords."""
    names = ("scripts", "secrets")
    return [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in names]


def build_volumes(db: MySQL) -> list[kw.Object]:
    """Build the volumes for `build_mounts`."""
    secret = {"secretName": secret_name(db), "defaultMode": 0o440}
    return [
        {"name": "scripts", "configMap": {"name": f"mysql-scripts-{db.metadata.name}"}},
        {"name": "secrets", "secret": secret},
    ]


def secret_name(db: MySQL) -> str:
    """Return the name of the Secret with the passwords."""
    return f"mysql-secret-{db.metadata.name}"
