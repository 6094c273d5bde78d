"""Preemption: which less important pods make room for one that fits nowhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.scheduler.filters import Filters, Incoming
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.local.controllers.scheduler.refusal import Refusal

_UNHELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = "No preemption victims found for incoming pod"
# kube-scheduler's minCandidateNodesPercentage and minCandidateNodesAbsolute.
_SHARE_OF_NODES, _LEAST_NODES = 10, 100


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget: how many more of the pods that it selects may go."""

    namespace: str
    selector: LabelSelector
    allowed: int
    disrupted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, budget: Object) -> Budget:
        """Read a decoded budget."""
        status = budget.get("status") or {}
        return cls(
            budget["metadata"]["namespace"],
            LabelSelector.of((budget.get("spec") or {}).get("selector")),
            int(status.get("disruptionsAllowed") or 0),
            frozenset(status.get("disruptedPods") or ()),
        )

    def covers(self, pod: PodInfo) -> bool:
        """Tell whether a pod's going uses the budget up; one that is going already used it."""
        return (
            self.namespace == pod.key.namespace
            and not self.selector.is_empty
            and bool(pod.labels)
            and self.selector.matches(pod.labels)
            and pod.key.name not in self.disrupted
        )


class Candidate(msgspec.Struct, frozen=True):
    """A node where victims, the most important ones first, would make room."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int


class Preemption(msgspec.Struct, frozen=True):
    """The best candidate, or the reasons of all nodes why there is none."""

    candidate: Candidate | None = None
    reasons: tuple[str, ...] = ()


def plan_preemption(
    incoming: Incoming,
    nodes: Sequence[NodeInfo],
    refusals: dict[str, Refusal],
    filters: Filters,
    budgets: Sequence[Budget],
) -> Preemption:
    """Look for the node where the least is lost when pods of lower priority make room.

    Args:
        incoming: The pod that fits nowhere.
        nodes: All nodes.
        refusals: Why nodes refused the pod; those without an entry were not even asked.
        filters: What refused it.
        budgets: All disruption budgets: they are broken only where there is no other way.
    """
    wanted = max(_LEAST_NODES, len(nodes) * _SHARE_OF_NODES // 100)
    reasons: list[str] = []
    candidates: list[Candidate] = []
    for node in nodes:
        refusal = refusals.get(node.name)
        if refusal is None or not refusal.is_resolvable:
            reasons.append(_UNHELPFUL)
        elif len(candidates) < wanted:
            found = find_victims(incoming, node, filters, budgets)
            if isinstance(found, Candidate):
                candidates.append(found)
            else:
                reasons += found
    if not candidates:
        return Preemption(reasons=tuple(reasons))
    return Preemption(min(candidates, key=_loss))


def find_victims(
    incoming: Incoming, node: NodeInfo, filters: Filters, budgets: Sequence[Budget]
) -> Candidate | Sequence[str]:
    """Return the fewest important pods without which the pod fits, or why there are none.

    The most important pods, and of equals those that run longest, are spared first; before all
    others those whose going would break a disruption budget.
    """
    lower = [pod for pod in node.pods.values() if pod.priority < incoming.info.priority]
    if not lower:
        return (_NO_VICTIMS,)
    emptied = node
    for pod in lower:
        emptied = emptied.without_pod(pod.key)
    refusal = filters.with_node(emptied).refuse(emptied)
    if refusal is not None:
        return refusal.reasons
    violating, others = split_by_budget(sorted(lower, key=_importance), budgets)
    victims = []
    violations = 0
    for pod in (*violating, *others):
        spared = emptied.with_pod(pod)
        if filters.with_node(spared).refuse(spared) is None:
            emptied = spared
        else:
            victims.append(pod)
            violations += pod in violating
    if not victims:
        return (_NO_VICTIMS,)
    return Candidate(node.name, tuple(sorted(victims, key=_importance)), violations)


def split_by_budget(
    pods: Iterable[PodInfo], budgets: Sequence[Budget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Split pods into those whose going would break a budget, and the others."""
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        covering = [i for i, budget in enumerate(budgets) if budget.covers(pod)]
        for index in covering:
            left[index] -= 1
        breaks = any(left[index] < 0 for index in covering)
        (violating if breaks else others).append(pod)
    return violating, others


def _importance(pod: PodInfo) -> tuple[int, str]:
    return (-pod.priority, pod.start)


def _loss(candidate: Candidate) -> tuple[int, int, int, int, tuple[int, ...], str]:
    victims = candidate.victims
    highest = victims[0].priority
    # Counted from the lowest priority there is, so that few victims are better than many.
    total = sum(victim.priority + 2**31 for victim in victims)
    earliest = min(victim.start for victim in victims if victim.priority == highest)
    latest_first = tuple(-ord(character) for character in earliest)
    return candidate.violations, highest, total, len(victims), latest_first, candidate.node
