"""The Node object: what the node says of itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.version import VERSION

MAX_PODS = 110
MAX_SIMULATED_PODS = 1000
LEASE_SECONDS = 40
KUBELET_VERSION = "v1.37.2"
"""The kubelet that this agent behaves as; controllers look at the minor version."""

UNTOUCHED = ("MemoryPressure", "DiskPressure", "PIDPressure")
_REASONS = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
DECLARED_FEATURES = ("ExtendWebSocketsToKubelet",)
"""What the API server may rely on (KEP-5328): that it may pass WebSockets through (KEP-4006)."""


class NodeFacts(msgspec.Struct, frozen=True):
    """What there is to say of a node."""

    name: str
    address: str
    port: int
    cpus: int
    memory_bytes: int
    runtime: str
    pod_cidr: str
    machine: str
    kernel: str
    os_image: str
    machine_id: str
    boot_id: str
    architecture: str = "amd64"
    is_one_uid: bool = False
    has_limits: bool = True

    @property
    def is_simulated(self) -> bool:
        """Tell whether no processes run."""
        return self.runtime.startswith("simulated://")


def build_node(facts: NodeFacts, *, now: str, before: Sequence[Object] = ()) -> Object:
    """Build the Node object as it is registered; `before` are the conditions known so far."""
    labels = {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": facts.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": facts.architecture,
    }
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": facts.name, "labels": labels, "annotations": build_annotations(facts)},
        "spec": {"podCIDR": facts.pod_cidr, "podCIDRs": [facts.pod_cidr]},
        "status": build_node_status(facts, now=now, before=before),
    }
    return node


def build_annotations(facts: NodeFacts) -> dict[str, str]:
    """Build the annotations that say in what the node differs from others."""
    if facts.is_simulated:
        return {"kubewright.dev/simulated": "Pods are simulated: no processes run in them."}
    annotations = {}
    if not facts.has_limits:
        annotations["kubewright.dev/limits"] = (
            "No control group may be made here: limits of memory are watched by the node, those of "
            "cpu are not enforced."
        )
    if facts.is_one_uid:
        annotations["kubewright.dev/one-uid"] = (
            "Containers have the uid they ask for, in a user namespace, and are all one user of "
            "the host: supplementalGroups and fsGroup have no effect."
        )
    return annotations


def build_node_status(facts: NodeFacts, *, now: str, before: Sequence[Object] = ()) -> Object:
    """Build the status of the node."""
    amounts = {
        "cpu": str(facts.cpus),
        "memory": f"{facts.memory_bytes // 1024}Ki",
        "pods": str(MAX_SIMULATED_PODS if facts.is_simulated else MAX_PODS),
        "ephemeral-storage": "100Gi",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    return {
        "capacity": amounts,
        "allocatable": dict(amounts),
        "conditions": build_conditions(now=now, before=before),
        "addresses": [{"type": "InternalIP", "address": facts.address}],
        "declaredFeatures": list(DECLARED_FEATURES),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": facts.port}},
        "nodeInfo": {
            "machineID": facts.machine_id,
            "systemUUID": facts.machine_id,
            "bootID": facts.boot_id,
            "kernelVersion": facts.kernel,
            "osImage": facts.os_image,
            "containerRuntimeVersion": facts.runtime,
            "kubeletVersion": f"{KUBELET_VERSION}+kubewright-{VERSION}",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": facts.architecture,
        },
    }


def build_conditions(*, now: str, before: Sequence[Object]) -> list[Object]:
    """Build the conditions of a node that is well; the time of transition is kept."""
    known = {entry["type"]: entry for entry in before}
    conditions = []
    for type in (*UNTOUCHED, "Ready"):
        status = "True" if type == "Ready" else "False"
        reason, message = _REASONS.get(type, ("KubeletReady", "kubelet is posting ready status"))
        old = known.get(type) or {}
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        conditions.append(
            {
                "type": type,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since or now,
            }
        )
    return conditions


def build_lease(node: Object, *, now: str) -> Object:
    """Build the Lease whose renewal says that the node lives (KEP-589)."""
    metadata = node["metadata"]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": metadata["name"],
            "namespace": "kube-node-lease",
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                }
            ],
        },
        "spec": {
            "holderIdentity": metadata["name"],
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now,
        },
    }
