"""Topology spread constraints: how evenly pods lie over domains (KEP-895). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector, Requirement
from kubewright.local.controllers.scheduler.node_affinity import (
    hard_taints,
    matches_node,
    tolerates,
)
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.refusal import Plugin, Refusal

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

_TEXT = "node(s) didn't match pod topology spread constraints"
_UNEVEN = Refusal(Plugin.SPREAD, (_TEXT,), is_resolvable=True)
_UNLABELLED = Refusal(Plugin.SPREAD, (f"{_TEXT} (missing required label)",))
_FULL_SCORE = 100


class Constraint(msgspec.Struct, frozen=True):
    """One spread constraint of a pod."""

    topology_key: str
    max_skew: int
    selector: LabelSelector
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False

    @classmethod
    def of(cls, constraint: Object, labels: Mapping[str, str]) -> Constraint:
        """Read a constraint of a pod with these labels."""
        selector = LabelSelector.of(constraint.get("labelSelector"))
        own = [
            Requirement(key, "In", (labels[key],))
            for key in constraint.get("matchLabelKeys") or ()
            if key in labels
        ]
        if own and not selector.selects_nothing:
            selector = LabelSelector((*selector.requirements, *own))
        return cls(
            constraint["topologyKey"],
            int(constraint["maxSkew"]),
            selector,
            int(constraint.get("minDomains") or 1),
            constraint.get("nodeAffinityPolicy") != "Ignore",
            constraint.get("nodeTaintsPolicy") == "Honor",
        )

    def counts_node(self, spec: Object, node: NodeInfo) -> bool:
        """Tell whether the pods of a node count, by the constraint's inclusion policies."""
        if self.honours_affinity and not matches_node(spec, node):
            return False
        tolerations = spec.get("tolerations") or ()
        return not self.honours_taints or all(
            tolerates(tolerations, taint) for taint in hard_taints(node)
        )

    def count_pods(self, namespace: str, node: NodeInfo) -> int:
        """Count the selected pods on a node; those that are ending do not count."""
        if self.selector.is_empty:
            return 0
        return sum(
            not pod.is_terminating
            and pod.key.namespace == namespace
            and self.selector.matches(pod.labels)
            for pod in node.pods.values()
        )


def read_constraints(pod: Object, action: str) -> list[Constraint]:
    """Return a pod's constraints for `DoNotSchedule` or `ScheduleAnyway`."""
    labels = pod["metadata"].get("labels") or {}
    return [
        Constraint.of(constraint, labels)
        for constraint in pod["spec"].get("topologySpreadConstraints") or ()
        if constraint.get("whenUnsatisfiable") == action
    ]


def default_constraints(selector: LabelSelector | None) -> list[Constraint]:
    """Return what a pod without constraints is spread by: hosts before zones, as far as it goes.

    Args:
        selector: The pods that belong together with it; None or an empty one for no spreading.
    """
    if selector is None or selector.is_empty:
        return []
    return [Constraint(HOSTNAME, 3, selector), Constraint(ZONE, 5, selector)]


class SpreadFilter:
    """Whether a pod on a node would lie too unevenly with its like."""

    def __init__(self, pod: Object, nodes: Iterable[NodeInfo]) -> None:
        self._constraints = read_constraints(pod, "DoNotSchedule")
        if not self._constraints:
            return
        labels = pod["metadata"].get("labels") or {}
        self._itself = [int(c.selector.matches(labels)) for c in self._constraints]
        self._counts: list[dict[str, int]] = [{} for _ in self._constraints]
        namespace = pod["metadata"].get("namespace") or ""
        for node in nodes:
            if not _has_keys(node, self._constraints):
                continue
            for constraint, counts in zip(self._constraints, self._counts, strict=True):
                if constraint.counts_node(pod["spec"], node):
                    domain = node.labels[constraint.topology_key]
                    found = constraint.count_pods(namespace, node)
                    counts[domain] = counts.get(domain, 0) + found
        self._fewest = [
            min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
            for constraint, counts in zip(self._constraints, self._counts, strict=True)
        ]

    def refuse(self, node: NodeInfo) -> Refusal | None:
        """Return why the pod may not be on a node, if so."""
        for index, constraint in enumerate(self._constraints):
            domain = node.labels.get(constraint.topology_key)
            if domain is None:
                return _UNLABELLED
            here = self._counts[index].get(domain, 0) + self._itself[index]
            if here - self._fewest[index] > constraint.max_skew:
                return _UNEVEN
        return None


def score_spread(
    pod: Object,
    constraints: Sequence[Constraint],
    fitting: Sequence[NodeInfo],
    nodes: Iterable[NodeInfo],
    *,
    needs_all_keys: bool,
) -> dict[str, int]:
    """Rate the nodes that fit, from 0 to 100: the fewer of the pod's like in their domains.

    Domains of a key that has many count more, so that small ones do not drown in them.
    `needs_all_keys` rates nodes without one of the keys 0.
    """
    rated = [node for node in fitting if not needs_all_keys or _has_keys(node, constraints)]
    namespace = pod["metadata"].get("namespace") or ""
    totals: dict[str, float] = {node.name: 0.0 for node in rated}
    for constraint in constraints:
        key = constraint.topology_key
        domains = {node.labels[key] for node in rated if key in node.labels}
        counts = dict.fromkeys(domains, 0)
        for node in nodes if key != HOSTNAME else ():
            domain = node.labels.get(key)
            if domain in counts and constraint.counts_node(pod["spec"], node):
                counts[domain] += constraint.count_pods(namespace, node)
        weight = math.log((len(rated) if key == HOSTNAME else len(domains)) + 2)
        for node in rated:
            if key in node.labels:
                found = (
                    constraint.count_pods(namespace, node)
                    if key == HOSTNAME
                    else counts[node.labels[key]]
                )
                totals[node.name] += found * weight + constraint.max_skew - 1
    return _normalize({name: round(total) for name, total in totals.items()})


def _normalize(scores: dict[str, int]) -> dict[str, int]:
    highest, lowest = max(scores.values(), default=0), min(scores.values(), default=0)
    if highest == 0:
        return dict.fromkeys(scores, _FULL_SCORE)
    return {
        name: _FULL_SCORE * (highest + lowest - score) // highest for name, score in scores.items()
    }


def _has_keys(node: NodeInfo, constraints: Iterable[Constraint]) -> bool:
    return all(constraint.topology_key in node.labels for constraint in constraints)
