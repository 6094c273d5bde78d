"""The objects that make up a pool: pure functions from a Memcached to Kubernetes objects."""

from __future__ import annotations

from collections.abc import Mapping

import kubewright as kw
from memcached_operator.models import Memcached

PORT = 11211
UID = 11211  # the user of the docker-library image
MEMORY_MEBIBYTES = 64


def build_selector(mc: Memcached) -> dict[str, str]:
    """Return the labels that tell this pool's pods from all others; they never change."""
    return kw.build_instance_labels("memcached", mc.metadata.name)


def build_labels(mc: Memcached) -> dict[str, str]:
    """Return the labels that every object of the pool carries."""
    return {**build_selector(mc), "app.kubernetes.io/managed-by": "memcached-operator"}


def build_service(mc: Memcached) -> kw.Object:
    """Build the headless Service: clients resolve it to the address of each pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": mc.metadata.name, "labels": build_labels(mc)},
        "spec": {
            "clusterIP": "None",
            "selector": build_selector(mc),
            "ports": [{"name": "memcached", "port": PORT, "targetPort": "memcached"}],
        },
    }


def build_deployment(mc: Memcached) -> kw.Object:
    """Build the Deployment of `size` pods of `version`."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": mc.metadata.name, "labels": build_labels(mc)},
        "spec": {
            "replicas": mc.spec.size,
            "selector": {"matchLabels": build_selector(mc)},
            # A lost cache node is a burst of misses: replace one at a time, the new one first.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {
                "metadata": {"labels": build_labels(mc)},
                "spec": build_pod_spec(mc),
            },
        },
    }


def build_pod_spec(mc: Memcached) -> kw.Object:
    """Build the pod: one container that fits the restricted Pod Security Standard."""
    return kw.restrict_pod({"containers": [build_container(mc)]}, user=UID)


def build_container(mc: Memcached) -> kw.Object:
    """Build the memcached container."""
    probe: Mapping[str, object] = {"tcpSocket": {"port": "memcached"}}
    return {
        "name": "memcached",
        "image": f"memcached:{mc.spec.version}",
        "args": ["memcached", f"--memory-limit={MEMORY_MEBIBYTES}"],
        "ports": [{"name": "memcached", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {**probe, "periodSeconds": 2},
        "livenessProbe": {**probe, "periodSeconds": 10, "failureThreshold": 3},
        # memcached needs its own memory beside that of the items.
        "resources": {
            "requests": {"cpu": "50m", "memory": f"{MEMORY_MEBIBYTES}Mi"},
            "limits": {"memory": f"{2 * MEMORY_MEBIBYTES}Mi"},
        },
        "securityContext": {"readOnlyRootFilesystem": True},
    }
