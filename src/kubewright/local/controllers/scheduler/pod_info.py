"""What the scheduler keeps of a pod and of a node. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from kubewright.api.metadata import controller_of
from kubewright.api.quantity import Quantity
from kubewright.api.resource import NamespacedName, Object
from kubewright.local.controllers.pod import is_pod_finished, is_pod_terminating

CPU, MEMORY, PODS = "cpu", "memory", "pods"

Amounts = dict[str, int]
"""Resources by name: cpu in thousandths, everything else in its own unit."""


class HostPort(NamedTuple):
    """A port that a pod takes on its node; an empty address stands for all."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Tell whether both cannot be on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return not self.address or not other.address or self.address == other.address


def parse_amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Read a resource list."""
    return {
        name: Quantity(str(value)).to_milli() if name == CPU else Quantity(str(value)).to_int()
        for name, value in (quantities or {}).items()
    }


def pod_requests(spec: Object) -> Amounts:
    """Add up what a pod requests.

    Containers run together, with init containers that go on (sidecars, KEP-753); other init
    containers run alone beside the sidecars started before them. The larger need counts.
    """
    running = _sum(_requests(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, _requests(container)])
            starting = _largest(starting, sidecars)
        else:
            starting = _largest(starting, _sum([sidecars, _requests(container)]))
    total = _largest(_sum([running, sidecars]), starting)
    return _sum([total, parse_amounts(spec.get("overhead"))])


def _requests(container: Object) -> Amounts:
    return parse_amounts((container.get("resources") or {}).get("requests"))


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total: Counter[str] = Counter()
    for amount in amounts:
        total.update(amount)
    return dict(total)


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}


def pod_ports(spec: Object) -> tuple[HostPort, ...]:
    """Return the ports that a pod takes on its node."""
    ports = []
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = port.get("hostIP") or ""
                address = "" if address in ("0.0.0.0", "::") else address
                ports.append(HostPort(address, port.get("protocol") or "TCP", port["hostPort"]))
    return tuple(ports)


class PodInfo(msgspec.Struct, frozen=True):
    """A pod in numbers; `node` is where it is, or was assumed to be."""

    key: NamespacedName
    uid: str
    node: str
    labels: Mapping[str, str]
    priority: int
    requests: Mapping[str, int]
    ports: tuple[HostPort, ...]
    controller: str
    anti_affinity: tuple[Object, ...]
    nominated_node: str = ""
    is_terminating: bool = False
    start: str = ""

    @classmethod
    def of(cls, pod: Object, node: str | None = None) -> PodInfo:
        """Read a decoded pod; `node` overrides the node that it names."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        owner = controller_of(pod)
        return cls(
            key=NamespacedName.of(pod),
            uid=metadata.get("uid") or "",
            node=node or spec.get("nodeName") or "",
            labels=metadata.get("labels") or {},
            priority=int(spec.get("priority") or 0),
            requests=pod_requests(spec),
            ports=pod_ports(spec),
            controller=owner["uid"] if owner else "",
            anti_affinity=tuple(affinity_terms(spec, "podAntiAffinity")),
            nominated_node=status.get("nominatedNodeName") or "",
            is_terminating=is_pod_terminating(pod),
            start=status.get("startTime") or metadata.get("creationTimestamp") or "",
        )


def takes_room(pod: Object) -> bool:
    """Tell whether a pod takes room on its node: a finished one does not."""
    return bool(pod["spec"].get("nodeName")) and not is_pod_finished(pod)


def affinity_terms(spec: Object, kind: str) -> list[Object]:
    """Return the terms of `podAffinity` or `podAntiAffinity` that must hold."""
    affinity = (spec.get("affinity") or {}).get(kind) or {}
    terms: list[Object] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    return terms


class NodeInfo(msgspec.Struct, frozen=True):
    """A node with the pods that take room on it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]
    pods: tuple[PodInfo, ...] = ()
    requested: Mapping[str, int] = {}

    @classmethod
    def of(cls, node: Object, pods: Iterable[PodInfo] = ()) -> NodeInfo:
        """Read a decoded node."""
        spec, status = node.get("spec") or {}, node.get("status") or {}
        allocatable = parse_amounts(status.get("allocatable") or status.get("capacity"))
        info = cls(
            name=node["metadata"]["name"],
            labels=node["metadata"].get("labels") or {},
            taints=tuple(spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            allocatable=allocatable,
        )
        return info.with_pods(pods)

    def with_pods(self, pods: Iterable[PodInfo]) -> NodeInfo:
        """Return the node with these pods on it and no others."""
        placed = tuple(pods)
        requested = _sum(dict(pod.requests) for pod in placed)
        return NodeInfo(
            self.name,
            self.labels,
            self.taints,
            self.unschedulable,
            self.allocatable,
            placed,
            requested,
        )
