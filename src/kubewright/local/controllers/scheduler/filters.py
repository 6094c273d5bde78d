"""Why a pod cannot be on a node: the filters of the scheduler, in its order and its words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector, Requirement, match_all
from kubewright.local.controllers.scheduler.pod_info import (
    PODS,
    NodeInfo,
    PodInfo,
    affinity_terms,
)


class Refusal(msgspec.Struct, frozen=True):
    """Why a node does not take a pod, and whether it would with fewer pods on it."""

    reasons: tuple[str, ...]
    is_resolvable: bool = False


def find_refusal(
    pod: Object, info: PodInfo, node: NodeInfo, nodes: Sequence[NodeInfo]
) -> Refusal | None:
    """Return the first filter's refusal, or None when the pod may be on the node.

    Args:
        pod: The decoded pod.
        info: The same pod in numbers.
        node: The node that is asked.
        nodes: All nodes: what pods on others say counts for affinity.
    """
    return (
        _refuse_node(pod, node)
        or _refuse_ports(info, node)
        or _refuse_resources(info, node)
        or _refuse_topology(pod, node, nodes)
        or _refuse_affinity(pod, info, node, nodes)
    )


def _refuse_node(pod: Object, node: NodeInfo) -> Refusal | None:
    tolerations = pod["spec"].get("tolerations") or ()
    if node.unschedulable and not tolerates(
        tolerations, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ):
        return Refusal(("node(s) were unschedulable",))
    if any(not tolerates(tolerations, taint) for taint in hard_taints(node)):
        return Refusal(("node(s) had untolerated taint(s)",))
    if not matches_node(pod["spec"], node):
        return Refusal(("node(s) didn't match Pod's node affinity/selector",))
    return None


def hard_taints(node: NodeInfo) -> Iterable[Object]:
    """Return the taints that keep pods away; PreferNoSchedule only weighs."""
    return (taint for taint in node.taints if taint.get("effect") != "PreferNoSchedule")


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Tell whether one of the tolerations covers a taint."""
    return any(covers(toleration, taint) for toleration in tolerations)


def covers(toleration: Object, taint: Object) -> bool:
    """Tell whether a toleration covers a taint."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def matches_node(spec: Object, node: NodeInfo) -> bool:
    """Tell whether a node has what `nodeSelector` and required node affinity ask for."""
    wanted = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches_terms(required.get("nodeSelectorTerms") or (), node)


def matches_terms(terms: Iterable[Object], node: NodeInfo) -> bool:
    """Tell whether a node matches one of the terms; an empty term matches none."""
    return any(matches_term(term, node) for term in terms)


def matches_term(term: Object, node: NodeInfo) -> bool:
    """Tell whether a node matches a node selector term."""
    labels = [Requirement.of(e) for e in term.get("matchExpressions") or ()]
    fields = [Requirement.of(e) for e in term.get("matchFields") or ()]
    if not labels and not fields:
        return False
    return match_all(labels, node.labels) and match_all(fields, {"metadata.name": node.name})


def _refuse_ports(info: PodInfo, node: NodeInfo) -> Refusal | None:
    taken = [port for pod in node.pods for port in pod.ports]
    if any(mine.conflicts(other) for mine in info.ports for other in taken):
        text = "node(s) didn't have free ports for the requested pod ports"
        return Refusal((text,), is_resolvable=True)
    return None


def _refuse_resources(info: PodInfo, node: NodeInfo) -> Refusal | None:
    reasons = []
    resolvable = True
    if len(node.pods) + 1 > node.allocatable.get(PODS, 0):
        reasons.append("Too many pods")
    for name, amount in sorted(info.requests.items()):
        room = node.allocatable.get(name, 0)
        if amount and amount > room - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            # More than the whole node has: nobody's leaving helps.
            resolvable = resolvable and amount <= room
    return Refusal(tuple(reasons), is_resolvable=resolvable) if reasons else None


def _refuse_topology(pod: Object, node: NodeInfo, nodes: Sequence[NodeInfo]) -> Refusal | None:
    text = "node(s) didn't match pod topology spread constraints"
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        key = constraint["topologyKey"]
        if key not in node.labels:
            return Refusal((f"{text} (missing required label)",))
        counts = _count_domains(pod, constraint, nodes)
        selector = LabelSelector.of(constraint.get("labelSelector"))
        itself = int(selector.matches(pod["metadata"].get("labels")))
        here = counts.get(node.labels[key], 0) + itself
        fewest = min(counts.values(), default=0)
        if len(counts) < int(constraint.get("minDomains") or 1):
            fewest = 0
        if here - fewest > int(constraint["maxSkew"]):
            return Refusal((text,), is_resolvable=True)
    return None


def _count_domains(pod: Object, constraint: Object, nodes: Sequence[NodeInfo]) -> Mapping[str, int]:
    """Count the selected pods of the namespace in each domain that the pod may go to."""
    selector = LabelSelector.of(constraint.get("labelSelector"))
    namespace = pod["metadata"].get("namespace")
    counts: dict[str, int] = {}
    for node in nodes:
        domain = node.labels.get(constraint["topologyKey"])
        if domain is None or not matches_node(pod["spec"], node):
            continue
        selected = sum(
            p.key.namespace == namespace and not p.is_terminating and selector.matches(p.labels)
            for p in node.pods
        )
        counts[domain] = counts.get(domain, 0) + selected
    return counts


def _refuse_affinity(
    pod: Object, info: PodInfo, node: NodeInfo, nodes: Sequence[NodeInfo]
) -> Refusal | None:
    for term in affinity_terms(pod["spec"], "podAffinity"):
        if not _has_company(info, term, node, nodes):
            return Refusal(("node(s) didn't match pod affinity rules",))
    for term in info.anti_affinity:
        if any(_selects(term, info, other) for other in _neighbours(term, node, nodes)):
            text = "node(s) didn't match pod anti-affinity rules"
            return Refusal((text,), is_resolvable=True)
    for other_node in nodes:
        for other in other_node.pods:
            for term in other.anti_affinity:
                if _shares(term, node, other_node) and _selects(term, other, info):
                    text = "node(s) didn't satisfy existing pods anti-affinity rules"
                    return Refusal((text,), is_resolvable=True)
    return None


def _has_company(info: PodInfo, term: Object, node: NodeInfo, nodes: Sequence[NodeInfo]) -> bool:
    if term["topologyKey"] not in node.labels:
        return False
    if any(_selects(term, info, other) for other in _neighbours(term, node, nodes)):
        return True
    # The first pod of a group that wants to be together must be let in somewhere.
    nowhere = not any(_selects(term, info, other) for n in nodes for other in n.pods)
    return nowhere and _selects(term, info, info)


def _neighbours(term: Object, node: NodeInfo, nodes: Sequence[NodeInfo]) -> Iterable[PodInfo]:
    return (pod for other in nodes if _shares(term, node, other) for pod in other.pods)


def _shares(term: Object, node: NodeInfo, other: NodeInfo) -> bool:
    value = node.labels.get(term["topologyKey"])
    return value is not None and value == other.labels.get(term["topologyKey"])


def _selects(term: Object, holder: PodInfo, other: PodInfo) -> bool:
    """Tell whether an affinity term of one pod means another; without namespaces, its own."""
    namespaces = term.get("namespaces") or ()
    selector = term.get("namespaceSelector")
    # An empty namespaceSelector means all namespaces; labels of namespaces are not followed.
    everywhere = selector is not None and not selector
    own = not namespaces and selector is None and other.key.namespace == holder.key.namespace
    if not (everywhere or own or other.key.namespace in namespaces):
        return False
    return LabelSelector.of(term.get("labelSelector")).matches(other.labels)
