"""Which of the nodes that fit is best: the scores of kube-scheduler and their weights. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubewright.api.resource import Object
from kubewright.local.controllers.scheduler.affinity import weigh_affinity
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.node_affinity import covers, matches_term
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.requests import CPU, MEMORY
from kubewright.local.controllers.scheduler.spread import (
    default_constraints,
    read_constraints,
    score_spread,
)

_FULL = 100
_TAINTS, _NODE_AFFINITY, _SPREAD, _POD_AFFINITY = 3, 2, 2, 2
_MEBIBYTE = 1024 * 1024
# An image that is smaller than the first is pulled as fast as looked up; beyond the second (of each
# container) it makes no more difference.
_SMALL_IMAGE, _LARGE_IMAGE = 23 * _MEBIBYTE, 1000 * _MEBIBYTE

Scores = Mapping[str, int]
"""Scores by the names of nodes; who is missing has 0."""


def choose_node(
    incoming: Incoming, fitting: Sequence[NodeInfo], nodes: Sequence[NodeInfo]
) -> NodeInfo:
    """Return the best of the nodes that fit; of equals the emptiest, then the first by name.

    Args:
        incoming: The pod.
        fitting: Where it may be; at least one.
        nodes: All nodes.
    """
    if len(fitting) == 1:
        return fitting[0]
    total = dict.fromkeys((node.name for node in fitting), 0)
    for weight, scores in _rate(incoming, fitting, nodes):
        for name, score in scores.items():
            total[name] += weight * score
    return min(fitting, key=lambda node: (-total[node.name], len(node.pods), node.name))


def _rate(
    incoming: Incoming, fitting: Sequence[NodeInfo], nodes: Sequence[NodeInfo]
) -> Iterable[tuple[int, Scores]]:
    yield _TAINTS, _score_taints(incoming.pod["spec"], fitting)
    yield _NODE_AFFINITY, _score_node_affinity(incoming.pod["spec"], fitting)
    yield 1, {node.name: _score_room(incoming, node) for node in fitting}
    yield 1, _score_balance(incoming, fitting)
    yield _SPREAD, _score_spread(incoming, fitting, nodes)
    yield _POD_AFFINITY, _score_pod_affinity(incoming, fitting, nodes)
    yield 1, _score_images(incoming.pod["spec"], fitting, nodes)


def _score_taints(spec: Object, fitting: Sequence[NodeInfo]) -> Scores:
    tolerations = [
        toleration
        for toleration in spec.get("tolerations") or ()
        if toleration.get("effect") in (None, "", "PreferNoSchedule")
    ]
    found = {
        node.name: sum(
            taint.get("effect") == "PreferNoSchedule"
            and not any(covers(toleration, taint) for toleration in tolerations)
            for taint in node.taints
        )
        for node in fitting
    }
    most = max(found.values())
    return {name: _FULL - (_FULL * n // most if most else 0) for name, n in found.items()}


def _score_node_affinity(spec: Object, fitting: Sequence[NodeInfo]) -> Scores:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    if not preferred:
        return {}
    gained = {
        node.name: sum(
            term["weight"] for term in preferred if matches_term(term.get("preference") or {}, node)
        )
        for node in fitting
    }
    most = max(gained.values())
    return {name: _FULL * n // most for name, n in gained.items()} if most else {}


def _score_room(incoming: Incoming, node: NodeInfo) -> int:
    """Rate how much of cpu and memory stays free."""
    shares = []
    for name, taken, wanted in zip((CPU, MEMORY), node.weighed, incoming.info.weighed, strict=True):
        room = node.allocatable.get(name, 0)
        if room:
            shares.append(max(room - taken - wanted, 0) * _FULL // room)
    return sum(shares) // len(shares) if shares else 0


def _score_balance(incoming: Incoming, fitting: Sequence[NodeInfo]) -> Scores:
    """Rate whether the pod brings the used shares of cpu and memory closer together."""
    requests = incoming.info.requests
    if not requests.get(CPU) and not requests.get(MEMORY):
        return {}
    return {
        node.name: _FULL // 2 + (_FULL // 2 + _balance(node, requests) - _balance(node, {})) // 2
        for node in fitting
    }


def _balance(node: NodeInfo, more: Mapping[str, int]) -> int:
    shares = [
        min((node.requested.get(name, 0) + more.get(name, 0)) / room, 1.0)
        for name in (CPU, MEMORY)
        if (room := node.allocatable.get(name, 0))
    ]
    # The standard deviation of two numbers is half of their distance.
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - deviation) * _FULL)


def _score_spread(
    incoming: Incoming, fitting: Sequence[NodeInfo], nodes: Sequence[NodeInfo]
) -> Scores:
    has_own = bool(incoming.pod["spec"].get("topologySpreadConstraints"))
    constraints = (
        read_constraints(incoming.pod, "ScheduleAnyway")
        if has_own
        else default_constraints(incoming.kin())
    )
    if not constraints:
        return {}
    return score_spread(incoming.pod, constraints, fitting, nodes, needs_all_keys=has_own)


def _score_pod_affinity(
    incoming: Incoming, fitting: Sequence[NodeInfo], nodes: Sequence[NodeInfo]
) -> Scores:
    weights = weigh_affinity(incoming.info, nodes, incoming.namespaces)
    if not weights:
        return {}
    sums = {
        node.name: sum(weights[domain] for domain in node.labels.items() if domain in weights)
        for node in fitting
    }
    lowest, highest = min(sums.values()), max(sums.values())
    if lowest == highest:
        return {}
    return {name: _FULL * (n - lowest) // (highest - lowest) for name, n in sums.items()}


def _score_images(spec: Object, fitting: Sequence[NodeInfo], nodes: Sequence[NodeInfo]) -> Scores:
    """Rate how much need not be pulled; an image that few nodes have counts less."""
    if not any(node.images for node in fitting):
        return {}
    wanted = [
        _with_tag(container.get("image") or "")
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
    ]
    wanted += [_with_tag(v["image"].get("reference", "")) for v in _image_volumes(spec)]
    holders = {name: sum(name in node.images for node in nodes) for name in set(wanted)}
    most = _LARGE_IMAGE * len(wanted)
    scores = {}
    for node in fitting:
        size = sum(node.images.get(n, 0) * holders[n] // len(nodes) for n in wanted)
        size = min(max(size, _SMALL_IMAGE), most)
        scores[node.name] = _FULL * (size - _SMALL_IMAGE) // (most - _SMALL_IMAGE)
    return scores


def _image_volumes(spec: Object) -> Iterable[Object]:
    return (volume for volume in spec.get("volumes") or () if volume.get("image"))


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
