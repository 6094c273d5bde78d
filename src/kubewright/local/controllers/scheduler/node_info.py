"""What the scheduler keeps of a node: what it offers, and the pods that take room on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kubewright.api.resource import NamespacedName, Object
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.local.controllers.scheduler.requests import HostPort, parse_amounts


class NodeInfo(msgspec.Struct, frozen=True):
    """A node with the pods that take room on it; `with_pod` and `without_pod` give another one.

    `guarding` are the pods there with required anti-affinity, `attached` those whose affinity
    weighs when others are placed: few pods have any, and only those are looked at.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]
    images: Mapping[str, int] = {}
    pods: Mapping[NamespacedName, PodInfo] = {}
    requested: Mapping[str, int] = {}
    weighed: tuple[int, int] = (0, 0)
    ports: tuple[HostPort, ...] = ()
    guarding: tuple[PodInfo, ...] = ()
    attached: tuple[PodInfo, ...] = ()

    @classmethod
    def of(cls, node: Object, pods: Iterable[PodInfo] = ()) -> NodeInfo:
        """Read a decoded node."""
        spec, status = node.get("spec") or {}, node.get("status") or {}
        info = cls(
            name=node["metadata"]["name"],
            labels=node["metadata"].get("labels") or {},
            taints=tuple(spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            allocatable=parse_amounts(status.get("allocatable") or status.get("capacity")),
            images={
                name: int(image.get("sizeBytes") or 0)
                for image in status.get("images") or ()
                for name in image.get("names") or ()
            },
        )
        return info.with_pods(pods)

    def with_pods(self, pods: Iterable[PodInfo]) -> NodeInfo:
        """Return the node with more pods on it."""
        node = self
        for pod in pods:
            node = node.with_pod(pod)
        return node

    def with_pod(self, pod: PodInfo) -> NodeInfo:
        """Return the node with one more pod on it."""
        requested = dict(self.requested)
        for name, amount in pod.requests.items():
            requested[name] = requested.get(name, 0) + amount
        return msgspec.structs.replace(
            self,
            pods={**self.pods, pod.key: pod},
            requested=requested,
            weighed=(self.weighed[0] + pod.weighed[0], self.weighed[1] + pod.weighed[1]),
            ports=(*self.ports, *pod.ports),
            guarding=(*self.guarding, pod) if pod.terms.anti_affinity else self.guarding,
            attached=(*self.attached, pod) if pod.terms.draws_or_repels else self.attached,
        )

    def without_pod(self, key: NamespacedName) -> NodeInfo:
        """Return the node without a pod that is on it."""
        pods = dict(self.pods)
        pod = pods.pop(key)
        requested = dict(self.requested)
        for name, amount in pod.requests.items():
            requested[name] -= amount
        ports = list(self.ports)
        for port in pod.ports:
            ports.remove(port)
        return msgspec.structs.replace(
            self,
            pods=pods,
            requested=requested,
            weighed=(self.weighed[0] - pod.weighed[0], self.weighed[1] - pod.weighed[1]),
            ports=tuple(ports),
            guarding=tuple(p for p in self.guarding if p.key != key),
            attached=tuple(p for p in self.attached if p.key != key),
        )

    def offers_the_same(self, other: NodeInfo) -> bool:
        """Tell whether both are the same but for the pods on them."""
        return (self.labels, self.taints, self.unschedulable, self.allocatable, self.images) == (
            other.labels,
            other.taints,
            other.unschedulable,
            other.allocatable,
            other.images,
        )

    def with_offer(self, node: NodeInfo) -> NodeInfo:
        """Return this node's pods on what the node offers now."""
        return msgspec.structs.replace(
            self,
            labels=node.labels,
            taints=node.taints,
            unschedulable=node.unschedulable,
            allocatable=node.allocatable,
            images=node.images,
        )
