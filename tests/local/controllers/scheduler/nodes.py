"""Pods that wait and nodes with pods on them, as the scheduler reads them."""

from __future__ import annotations

from typing import Any

from tests.local.controllers.objects import build_node, build_pod

from kubewright.api.resource import Object
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.placement import Placement, plan_placement
from kubewright.local.controllers.scheduler.pod_info import PodInfo

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
WEB: Object = {"matchLabels": {"app": "web"}}


def container(**requests: str) -> list[Object]:
    return [{"name": "c", "image": "i", "resources": {"requests": requests}}]


def waiting(name: str = "new", **spec: Any) -> Object:
    return build_pod(name, node="", **spec)


def node(name: str = "node-a", pods: list[Object] | None = None, **options: Any) -> NodeInfo:
    return NodeInfo.of(build_node(name, **options), [PodInfo.of(pod) for pod in pods or []])


def zoned(zone: str, name: str, pods: list[Object] | None = None) -> NodeInfo:
    return node(name, pods, labels={ZONE: zone})


def place(pod: Object, nodes: list[NodeInfo]) -> Placement:
    return plan_placement(Incoming.of(pod), nodes)


def refusal(pod: Object, nodes: list[NodeInfo]) -> str:
    """Return what is said of the nodes, without what is said of preemption."""
    return place(pod, nodes).message.partition(" preemption:")[0]


def pod_affinity(
    key: str = HOST, *, kind: str = "podAffinity", selector: Object = WEB, **term: Any
) -> Object:
    terms = [{"topologyKey": key, "labelSelector": selector, **term}]
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def preferred(
    weight: int = 100, key: str = HOST, *, kind: str = "podAffinity", selector: Object = WEB
) -> Object:
    term = {"topologyKey": key, "labelSelector": selector}
    weighted = [{"weight": weight, "podAffinityTerm": term}]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
