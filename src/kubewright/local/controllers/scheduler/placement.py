"""The decision of the scheduler: a node, victims that make room on one, or a message. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.scheduler.filters import (
    Refusal,
    find_refusal,
    matches_term,
    tolerates,
)
from kubewright.local.controllers.scheduler.pod_info import (
    CPU,
    MEMORY,
    NodeInfo,
    PodInfo,
)

# What a pod without requests is taken to need when nodes are compared (not when they are filtered).
_ASSUMED_REQUESTS = {CPU: 100, MEMORY: 200 * 1024 * 1024}

_UNHELPFUL = "Preemption is not helpful for scheduling."
_NO_VICTIMS = "No preemption victims found for incoming pod."


class Placement(msgspec.Struct, frozen=True):
    """Where a pod goes. Without a node, `message` says why, as the condition and event do; without
    either the pod waits for room that is being made.

    With a `nominated` node, the `victims` on it are to be deleted to make room.
    """

    node: str = ""
    message: str = ""
    nominated: str = ""
    victims: tuple[PodInfo, ...] = ()


def plan_placement(pod: Object, nodes: Sequence[NodeInfo]) -> Placement:
    """Choose a node for a pod, or the node on which others must make room, or say why none fits.

    The same state gives the same node.

    Args:
        pod: The decoded pod.
        nodes: All nodes with the pods that are, or are assumed to be, on them.
    """
    if not nodes:
        return Placement(message="no nodes available to schedule pods")
    info = PodInfo.of(pod)
    refusals: dict[str, Refusal] = {}
    fitting = []
    for node in nodes:
        refusal = find_refusal(pod, info, node, nodes)
        if refusal is None:
            fitting.append(node)
        else:
            refusals[node.name] = refusal
    if fitting:
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        best = max(
            fitting, key=lambda node: (node.name == nominated, *score(pod, info, node, nodes))
        )
        return Placement(node=best.name)
    reasons = [reason for refusal in refusals.values() for reason in refusal.reasons]
    summary = f"{_none_of(nodes)}: {summarize(reasons)}."
    return _preempt(pod, info, nodes, refusals, summary)


def _none_of(nodes: Sequence[NodeInfo]) -> str:
    return f"0/{len(nodes)} nodes are available"


def summarize(reasons: Iterable[str]) -> str:
    """Count equal reasons and list them as the scheduler does, sorted as text."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))


def score(
    pod: Object, info: PodInfo, node: NodeInfo, nodes: Sequence[NodeInfo]
) -> tuple[float, ...]:
    """Rate a node that fits: preferences, then spreading, then room; names break ties."""
    together = sum(p.controller == info.controller for p in node.pods) if info.controller else 0
    return (
        _preference(pod, node),
        -together,
        round(_free_share(info, node), 6),
        -float(len(node.pods)),
        -float(sorted(n.name for n in nodes).index(node.name)),
    )


def _preference(pod: Object, node: NodeInfo) -> float:
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    gained = sum(p["weight"] for p in preferred if matches_term(p.get("preference") or {}, node))
    tolerations = spec.get("tolerations") or ()
    lost = sum(
        taint.get("effect") == "PreferNoSchedule" and not tolerates(tolerations, taint)
        for taint in node.taints
    )
    return float(gained - 100 * lost)


def _free_share(info: PodInfo, node: NodeInfo) -> float:
    """Return how much of cpu and memory would stay free, as a share of the node."""
    shares = []
    for name, assumed in _ASSUMED_REQUESTS.items():
        room = node.allocatable.get(name, 0)
        used = sum(_need(pod.requests, name, assumed) for pod in node.pods)
        used += _need(info.requests, name, assumed)
        shares.append(max(room - used, 0) / room if room else 0.0)
    return sum(shares) / len(shares)


def _need(requests: Mapping[str, int], name: str, assumed: int) -> int:
    return requests.get(name) or assumed


def _preempt(
    pod: Object,
    info: PodInfo,
    nodes: Sequence[NodeInfo],
    refusals: Mapping[str, Refusal],
    summary: str,
) -> Placement:
    """Look for a node where pods of lower priority can make room."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return Placement(
            message=f"{summary} preemption: not eligible due to preemptionPolicy=Never."
        )
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    if any(_makes_room(info, node) for node in nodes if node.name == nominated):
        # Room is being made already: what was said then still holds.
        return Placement(nominated=nominated or "")
    unhelpful = []
    candidates: list[tuple[NodeInfo, tuple[PodInfo, ...]]] = []
    for node in nodes:
        if not refusals[node.name].is_resolvable:
            unhelpful.append(_UNHELPFUL)
            continue
        victims = find_victims(pod, info, node, nodes)
        if victims:
            candidates.append((node, victims))
        else:
            unhelpful.append(_NO_VICTIMS)
    if not candidates:
        return Placement(message=f"{summary} preemption: {_none_of(nodes)}: {summarize(unhelpful)}")
    node, victims = min(candidates, key=_loss)
    text = (
        f"found a potential placement for pod on node {node.name}, "
        f"preempting {len(victims)} victims"
    )
    return Placement(message=f"{summary} preemption: {text}", nominated=node.name, victims=victims)


def _makes_room(info: PodInfo, node: NodeInfo) -> bool:
    return any(other.is_terminating and other.priority < info.priority for other in node.pods)


def find_victims(
    pod: Object, info: PodInfo, node: NodeInfo, nodes: Sequence[NodeInfo]
) -> tuple[PodInfo, ...]:
    """Return the fewest important pods without which the pod fits; none when that cannot help."""
    lower = [other for other in node.pods if other.priority < info.priority]
    kept = [other for other in node.pods if other.priority >= info.priority]
    if not lower or not _fits(pod, info, node.with_pods(kept), nodes):
        return ()
    victims = []
    # The most important ones, and of equals those that run longest, are spared first.
    for other in sorted(lower, key=lambda p: (-p.priority, p.start)):
        if _fits(pod, info, node.with_pods([*kept, other]), nodes):
            kept.append(other)
        else:
            victims.append(other)
    return tuple(victims)


def _fits(pod: Object, info: PodInfo, changed: NodeInfo, nodes: Sequence[NodeInfo]) -> bool:
    others = [changed if node.name == changed.name else node for node in nodes]
    return find_refusal(pod, info, changed, others) is None


def _loss(candidate: tuple[NodeInfo, tuple[PodInfo, ...]]) -> tuple[int, int, int, str]:
    node, victims = candidate
    priorities = [victim.priority for victim in victims]
    return max(priorities), sum(priorities), len(victims), node.name
