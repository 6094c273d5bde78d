"""The decision of the scheduler: a node, victims that make room on one, or a message. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from kubewright.local.controllers.scheduler.claims import VolumePlan
from kubewright.local.controllers.scheduler.filters import Filters, Incoming, candidate_nodes
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.local.controllers.scheduler.preemption import Budget, plan_preemption
from kubewright.local.controllers.scheduler.refusal import Plugin, Refusal
from kubewright.local.controllers.scheduler.scores import choose_node

Budgets: TypeAlias = Callable[[], Sequence[Budget]]
Reserved: TypeAlias = Mapping[str, Sequence[PodInfo]]
"""Pods by the node on which room is being made for them."""


class Placement(msgspec.Struct, frozen=True):
    """Where a pod goes, and which `volumes` it needs there first.

    Without a node, `message` says why, as the condition and the event do; without either the pod
    waits for room that is being made. `plugins` are those that refused: with none, any change may
    help. `nominated` is the node that is to be written, empty to take it back, and None to leave
    it; the `victims` there are to be deleted.
    """

    node: str = ""
    volumes: VolumePlan = VolumePlan()
    message: str = ""
    plugins: frozenset[Plugin] = frozenset()
    nominated: str | None = None
    victims: tuple[PodInfo, ...] = ()


def plan_placement(
    incoming: Incoming,
    nodes: Sequence[NodeInfo],
    reserved: Reserved | None = None,
    budgets: Budgets = tuple,
) -> Placement:
    """Choose a node for a pod, or the node on which others must make room, or say why none fits.

    The same state gives the same node.

    Args:
        incoming: The pod, and what is known of it.
        nodes: All nodes with the pods that are, or are assumed to be, on them.
        reserved: The pods of at least its priority for which room is being made. The pod must fit
            with them and, as they may end up elsewhere, without them.
        budgets: Reads the disruption budgets; asked only where others must make room.
    """
    if not nodes:
        return Placement(message="no nodes available to schedule pods")
    if incoming.claims.message:
        # The doubled words are the scheduler's own.
        message = f"{_none_of(nodes)}: {incoming.claims.message}. not found"
        return Placement(message=message, plugins=frozenset((Plugin.VOLUME_BINDING,)))
    crowded = [node.with_pods(reserved.get(node.name, ())) for node in nodes] if reserved else nodes
    filters = Filters(incoming, crowded)
    stages = [(filters, crowded), (Filters(incoming, nodes), nodes)] if reserved else []
    fitting, refusals = _ask(incoming, nodes, stages or [(filters, nodes)])
    if fitting:
        best = _choose(incoming, fitting, nodes)
        volumes = incoming.claims.plan(best) if incoming.claims.unbound else None
        return Placement(node=best.name, volumes=volumes or VolumePlan())
    return _preempt(incoming, crowded, refusals, filters, budgets)


def _ask(
    incoming: Incoming,
    nodes: Sequence[NodeInfo],
    stages: Sequence[tuple[Filters, Sequence[NodeInfo]]],
) -> tuple[list[NodeInfo], dict[str, Refusal]]:
    """Ask nodes, in each of their states; return those that fit and why the others do not."""
    asked = {node.name for node in candidate_nodes(incoming, nodes)}
    fitting: list[NodeInfo] = []
    refusals: dict[str, Refusal] = {}
    for index, node in enumerate(nodes):
        if node.name not in asked:
            continue
        refusal = None
        for filters, states in stages:
            refusal = refusal or filters.refuse(states[index])
        if refusal is None:
            fitting.append(node)
        else:
            refusals[node.name] = refusal
    return fitting, refusals


def _choose(incoming: Incoming, fitting: Sequence[NodeInfo], nodes: Sequence[NodeInfo]) -> NodeInfo:
    """Return the nominated node where it fits: room was made there. Otherwise the best."""
    nominated = [node for node in fitting if node.name == incoming.info.nominated_node]
    return nominated[0] if nominated else choose_node(incoming, fitting, nodes)


def _none_of(nodes: Sequence[NodeInfo]) -> str:
    return f"0/{len(nodes)} nodes are available"


def summarize(nodes: Sequence[NodeInfo], reasons: Iterable[str]) -> str:
    """Count equal reasons and list them as the scheduler does, sorted as text."""
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"{_none_of(nodes)}: {', '.join(counted)}."


def _preempt(
    incoming: Incoming,
    nodes: Sequence[NodeInfo],
    refusals: dict[str, Refusal],
    filters: Filters,
    budgets: Budgets,
) -> Placement:
    """Say why no node fits, and look for one where pods of lower priority can make room."""
    plugins = frozenset(refusal.plugin for refusal in refusals.values())
    reasons = [reason for refusal in refusals.values() for reason in refusal.reasons]
    unasked = len(nodes) - len(refusals)
    reasons += [f"node(s) didn't satisfy plugin(s) [{Plugin.NODE_AFFINITY.value}]"] * unasked
    if unasked:
        plugins |= {Plugin.NODE_AFFINITY}
    summary = f"{summarize(nodes, reasons)} preemption:"
    if incoming.pod["spec"].get("preemptionPolicy") == "Never":
        message = f"{summary} not eligible due to preemptionPolicy=Never."
        return Placement(message=message, plugins=plugins)
    if _makes_room(incoming, nodes, refusals):
        # Room is being made already: what was said then still holds.
        return Placement(plugins=plugins)
    preemption = plan_preemption(incoming, nodes, refusals, filters, budgets())
    if preemption.candidate is None:
        message = f"{summary} {summarize(nodes, preemption.reasons)}"
        return Placement(message=message, plugins=plugins, nominated="")
    node, victims = preemption.candidate.node, preemption.candidate.victims
    found = f"found a potential placement for pod on node {node}, preempting {len(victims)} victims"
    return Placement(message=f"{summary} {found}", plugins=plugins, nominated=node, victims=victims)


def _makes_room(
    incoming: Incoming, nodes: Iterable[NodeInfo], refusals: Mapping[str, Refusal]
) -> bool:
    """Tell whether less important pods are ending on the node that was nominated."""
    nominated = incoming.info.nominated_node
    refusal = refusals.get(nominated)
    if refusal is None or not refusal.is_resolvable:
        return False
    return any(
        pod.is_terminating and pod.priority < incoming.info.priority
        for node in nodes
        if node.name == nominated
        for pod in node.pods.values()
    )
