"""Objects that the acceptance tests apply."""

from __future__ import annotations

from typing import Any


def build_deployment(name: str, *, replicas: int = 2, image: str = "memcached:1.6") -> Any:
    """Build a Deployment of memcached with a readiness probe."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [
                        {
                            "name": "memcached",
                            "image": image,
                            "args": ["memcached", "-vv"],
                            "ports": [{"containerPort": 11211}],
                            "readinessProbe": {
                                "tcpSocket": {"port": 11211},
                                "periodSeconds": 1,
                            },
                        }
                    ],
                },
            },
        },
    }


def build_stateful_set(name: str, *, replicas: int = 3) -> Any:
    """Build a StatefulSet whose pods write a line into their volume when they start."""
    labels = {"app": name}
    script = "echo $HOSTNAME started >> /data/log; exec memcached"
    container = {
        "name": "memcached",
        "image": "memcached:1.6",
        "command": ["sh", "-c", script],
        "readinessProbe": {"tcpSocket": {"port": 11211}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def build_daemon_set(name: str) -> Any:
    """Build a DaemonSet of memcached."""
    deployment = build_deployment(name)
    spec = {key: deployment["spec"][key] for key in ("selector", "template")}
    return {**deployment, "kind": "DaemonSet", "spec": spec}


def build_config_map(name: str, **data: str) -> Any:
    """Build a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data,
    }


def build_memcached(name: str, *, size: int = 3, version: str = "1.6.9") -> Any:
    """Build a Memcached as the sample has it."""
    return {
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": name},
        "spec": {"size": size, "version": version},
    }
