"""Objects of the workload kinds as an API server would store them, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.api.resource import Object
from kubewright.api.time import format_time

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def build_template(version: str = "1", **spec: Any) -> Object:
    containers = [{"name": "c", "image": "nginx:1"}]
    return {
        "metadata": {"labels": {"app": "web", "v": version}},
        "spec": {"containers": containers, **spec},
    }


def build_deployment(replicas: int = 3, version: str = "1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "uid": "d", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": build_template(version),
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            **spec,
        },
        "status": {},
    }


def build_replica_set(
    name: str = "web",
    replicas: int = 1,
    *,
    version: str = "1",
    available: int | None = None,
    annotations: dict[str, str] | None = None,
    age: int = 0,
    **spec: Any,
) -> Object:
    available = replicas if available is None else available
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": format_time(NOW - timedelta(seconds=age)),
            "annotations": annotations or {},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": build_template(version),
            **spec,
        },
        "status": {
            "replicas": replicas,
            "readyReplicas": available,
            "availableReplicas": available,
            "observedGeneration": 1,
        },
    }


def build_pod(
    name: str = "p",
    *,
    ready: bool = True,
    phase: str = "Running",
    node: str = "node-a",
    labels: dict[str, str] | None = None,
    ready_for: int = 60,
    restarts: int = 0,
    deleting: bool = False,
    annotations: dict[str, str] | None = None,
    owner: Object | None = None,
    **spec: Any,
) -> Object:
    moment = format_time(NOW - timedelta(seconds=ready_for))
    metadata: Object = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "creationTimestamp": moment,
        "labels": {"app": "web", "v": "1"} if labels is None else labels,
        "annotations": annotations or {},
    }
    if deleting:
        metadata["deletionTimestamp"] = moment
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    status: Object = {
        "phase": phase,
        "conditions": [
            {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": moment}
        ],
        "containerStatuses": [{"name": "c", "restartCount": restarts}],
    }
    containers = [{"name": "c", "image": "nginx:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **({"nodeName": node} if node else {}), **spec},
        "status": status,
    }


def build_node(
    name: str = "node-a",
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    labels: dict[str, str] | None = None,
    taints: list[Object] | None = None,
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": {"taints": taints or []},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def build_stateful_set(replicas: int = 3, version: str = "1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "ns", "uid": "s", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": build_template(version),
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            **spec,
        },
        "status": {},
    }


def build_daemon_set(version: str = "1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "ns", "uid": "d", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": build_template(version),
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "revisionHistoryLimit": 10,
            **spec,
        },
        "status": {},
    }


def build_volume(
    name: str = "v",
    size: str = "1Gi",
    *,
    phase: str = "Available",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": annotations or {},
            "labels": labels or {},
        },
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "c",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/data"},
            **spec,
        },
        "status": {"phase": phase},
    }


def build_claim(
    name: str = "data",
    size: str = "1Gi",
    *,
    phase: str = "Pending",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": annotations or {},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": "c",
            **spec,
        },
        "status": {"phase": phase},
    }
