"""Why a pod cannot be on a node: the filters of the scheduler, in its order and its words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.scheduler.affinity import AffinityFilter, Namespaces
from kubewright.local.controllers.scheduler.claims import NO_CLAIMS, PodClaims
from kubewright.local.controllers.scheduler.node_affinity import (
    covers,
    hard_taints,
    matches_node,
    matches_term,
    matches_terms,
    named_nodes,
    tolerates,
)
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.local.controllers.scheduler.refusal import Plugin, Refusal
from kubewright.local.controllers.scheduler.requests import PODS
from kubewright.local.controllers.scheduler.spread import SpreadFilter

__all__ = [
    "Filters",
    "Incoming",
    "covers",
    "hard_taints",
    "matches_node",
    "matches_term",
    "matches_terms",
    "tolerates",
]

_UNSCHEDULABLE_TAINT: Object = {
    "key": "node.kubernetes.io/unschedulable",
    "effect": "NoSchedule",
}
_UNSCHEDULABLE = Refusal(Plugin.UNSCHEDULABLE, ("node(s) were unschedulable",))
_TAINTED = Refusal(Plugin.TAINTS, ("node(s) had untolerated taint(s)",))
_OTHER_NODE = Refusal(Plugin.NODE_AFFINITY, ("node(s) didn't match Pod's node affinity/selector",))
_PORTS_TAKEN = Refusal(
    Plugin.PORTS,
    ("node(s) didn't have free ports for the requested pod ports",),
    is_resolvable=True,
)
_SOLE_USER_TEXT = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_SOLE_USER = Refusal(Plugin.VOLUME_RESTRICTIONS, (_SOLE_USER_TEXT,), is_resolvable=True)


class Incoming(msgspec.Struct, frozen=True):
    """A pod to be placed, and what is known of it beside the nodes.

    `kin` reads the selector of the pods that it belongs together with, by Services and its owner.
    """

    pod: Object
    info: PodInfo
    claims: PodClaims = NO_CLAIMS
    namespaces: Namespaces = {}
    kin: Callable[[], LabelSelector | None] = lambda: None

    @classmethod
    def of(cls, pod: Object) -> Incoming:
        """Read a decoded pod about which nothing else is known."""
        return cls(pod, PodInfo.of(pod))


class Filters:
    """The filters for one pod, given all nodes: what pods on other nodes say counts, too."""

    def __init__(self, incoming: Incoming, nodes: Sequence[NodeInfo]) -> None:
        self._incoming = incoming
        self._nodes = nodes
        self._spread = SpreadFilter(incoming.pod, nodes)
        self._affinity = AffinityFilter(incoming.info, nodes, incoming.namespaces)
        self._sole_claims = {
            name
            for name in incoming.claims.sole_users
            if any(_uses(node, incoming.info, name) for node in nodes)
        }

    def with_node(self, changed: NodeInfo) -> Filters:
        """Return the filters with one node in another state: with fewer pods, say."""
        nodes = [changed if node.name == changed.name else node for node in self._nodes]
        return Filters(self._incoming, nodes)

    def refuse(self, node: NodeInfo) -> Refusal | None:
        """Return the first filter's refusal, or None when the pod may be on the node."""
        return (
            self._refuse_node(node)
            or _refuse_ports(self._incoming.info, node)
            or _refuse_resources(self._incoming.info, node)
            or (_SOLE_USER if self._sole_claims else None)
            or self._incoming.claims.refuse(node)
            or self._spread.refuse(node)
            or self._affinity.refuse(node)
        )

    def _refuse_node(self, node: NodeInfo) -> Refusal | None:
        spec = self._incoming.pod["spec"]
        tolerations = spec.get("tolerations") or ()
        if node.unschedulable and not tolerates(tolerations, _UNSCHEDULABLE_TAINT):
            return _UNSCHEDULABLE
        if node.taints and any(not tolerates(tolerations, t) for t in hard_taints(node)):
            return _TAINTED
        return None if matches_node(spec, node) else _OTHER_NODE


def candidate_nodes(incoming: Incoming, nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
    """Return the nodes worth looking at: all, or those that the pod's affinity names."""
    names = named_nodes(incoming.pod["spec"])
    return nodes if names is None else [node for node in nodes if node.name in names]


def _uses(node: NodeInfo, info: PodInfo, claim: str) -> bool:
    return any(
        claim in other.claims and other.key.namespace == info.key.namespace
        for other in node.pods.values()
    )


def _refuse_ports(info: PodInfo, node: NodeInfo) -> Refusal | None:
    if info.ports and any(mine.conflicts(port) for mine in info.ports for port in node.ports):
        return _PORTS_TAKEN
    return None


def _refuse_resources(info: PodInfo, node: NodeInfo) -> Refusal | None:
    reasons: list[str] = []
    resolvable = True
    if len(node.pods) + 1 > node.allocatable.get(PODS, 0):
        reasons.append("Too many pods")
    for name, amount in info.requests.items():
        room = node.allocatable.get(name, 0)
        if amount and amount > room - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            # More than the whole node has: nobody's leaving helps.
            resolvable = resolvable and amount <= room
    if not reasons:
        return None
    return Refusal(Plugin.RESOURCES, tuple(reasons), is_resolvable=resolvable)
