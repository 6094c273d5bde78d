"""Affinity between pods: which pods a term means, where they draw a pod and where they repel it.

Terms of pods are compared with labels of pods and namespaces over domains: all nodes with the same
value of the term's topology key. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.scheduler.refusal import Plugin, Refusal

if TYPE_CHECKING:
    from kubewright.local.controllers.scheduler.node_info import NodeInfo
    from kubewright.local.controllers.scheduler.pod_info import PodInfo

Namespaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""The labels of namespaces by name."""
Domain: TypeAlias = tuple[str, str]
"""A topology key and its value."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# kube-scheduler's hardPodAffinityWeight: how much a pod's required affinity draws others to it.
_HARD_WEIGHT = 1

_NO_AFFINITY = Refusal(Plugin.POD_AFFINITY, ("node(s) didn't match pod affinity rules",))
_REPELLED = Refusal(
    Plugin.POD_AFFINITY, ("node(s) didn't match pod anti-affinity rules",), is_resolvable=True
)
_GUARDED = Refusal(
    Plugin.POD_AFFINITY,
    ("node(s) didn't satisfy existing pods anti-affinity rules",),
    is_resolvable=True,
)


class Term(msgspec.Struct, frozen=True):
    """A decoded PodAffinityTerm, with the namespaces that it means by name filled in."""

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector

    @classmethod
    def of(cls, term: Object, namespace: str) -> Term:
        """Read a term of a pod in a namespace; without any namespaces its own is meant."""
        names = frozenset(term.get("namespaces") or ())
        selector = term.get("namespaceSelector")
        if not names and selector is None:
            names = frozenset((namespace,))
        return cls(
            term["topologyKey"],
            LabelSelector.of(term.get("labelSelector")),
            names,
            LabelSelector.of(selector),
        )

    def selects(self, pod: PodInfo, namespaces: Namespaces) -> bool:
        """Tell whether the term means a pod."""
        namespace = pod.key.namespace
        if namespace not in self.namespaces and not self.namespace_selector.matches(
            namespaces.get(namespace)
        ):
            return False
        return self.selector.matches(pod.labels)


class WeightedTerm(NamedTuple):
    """A term that weighs when nodes are compared; negative weights repel."""

    weight: int
    term: Term


class PodTerms(msgspec.Struct, frozen=True):
    """The affinity of one pod."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()

    @classmethod
    def of(cls, spec: Object, namespace: str) -> PodTerms:
        """Read the affinity of a pod in a namespace."""
        affinity = spec.get("affinity") or {}
        near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        if not near and not far:
            return _NO_TERMS
        return cls(
            tuple(Term.of(term, namespace) for term in near.get(_REQUIRED) or ()),
            tuple(Term.of(term, namespace) for term in far.get(_REQUIRED) or ()),
            (
                *_weighted(near.get(_PREFERRED) or (), namespace, 1),
                *_weighted(far.get(_PREFERRED) or (), namespace, -1),
            ),
        )

    @property
    def draws_or_repels(self) -> bool:
        """Tell whether the pod's being somewhere makes that place better or worse for others."""
        return bool(self.affinity or self.preferred)


_NO_TERMS = PodTerms()


def _weighted(terms: Iterable[Object], namespace: str, sign: int) -> Iterable[WeightedTerm]:
    return (
        WeightedTerm(sign * item["weight"], Term.of(item["podAffinityTerm"], namespace))
        for item in terms
    )


class AffinityFilter:
    """Whether nodes are refused for what a pod, or the pods that are there, say of company."""

    def __init__(self, pod: PodInfo, nodes: Iterable[NodeInfo], namespaces: Namespaces) -> None:
        terms = pod.terms
        self._affinity, self._anti_affinity = terms.affinity, terms.anti_affinity
        self._company: Counter[Domain] = Counter()
        self._repelling: set[Domain] = set()
        self._guarded: set[Domain] = set()
        for node in nodes:
            if self._affinity or self._anti_affinity:
                self._look_around(node, namespaces)
            for other in node.guarding:
                self._guarded.update(
                    (term.topology_key, node.labels[term.topology_key])
                    for term in other.terms.anti_affinity
                    if term.topology_key in node.labels and term.selects(pod, namespaces)
                )
        # The first pod of a group that wants to be together must be let in somewhere.
        self._founds_group = not self._company and _selected_by_all(self._affinity, pod, namespaces)

    def _look_around(self, node: NodeInfo, namespaces: Namespaces) -> None:
        for other in node.pods.values():
            if self._affinity and _selected_by_all(self._affinity, other, namespaces):
                self._company.update(_domains(self._affinity, node))
            for term in self._anti_affinity:
                if term.selects(other, namespaces):
                    self._repelling.update(_domains((term,), node))

    def refuse(self, node: NodeInfo) -> Refusal | None:
        """Return why the pod may not be on a node, if so."""
        if self._affinity:
            domains = list(_domains(self._affinity, node))
            if len(domains) < len(self._affinity):
                return _NO_AFFINITY
            if not self._founds_group and not all(domain in self._company for domain in domains):
                return _NO_AFFINITY
        if self._repelling and not self._repelling.isdisjoint(_domains(self._anti_affinity, node)):
            return _REPELLED
        if self._guarded and not self._guarded.isdisjoint(node.labels.items()):
            return _GUARDED
        return None


def _selected_by_all(terms: Sequence[Term], pod: PodInfo, namespaces: Namespaces) -> bool:
    return bool(terms) and all(term.selects(pod, namespaces) for term in terms)


def _domains(terms: Iterable[Term], node: NodeInfo) -> Iterable[Domain]:
    return (
        (term.topology_key, node.labels[term.topology_key])
        for term in terms
        if term.topology_key in node.labels
    )


def weigh_affinity(
    pod: PodInfo, nodes: Iterable[NodeInfo], namespaces: Namespaces
) -> Counter[Domain]:
    """Sum up how much each domain draws a pod: by its preferences, and by those of others."""
    weights: Counter[Domain] = Counter()
    for node in nodes:
        others = node.pods.values() if pod.terms.preferred else node.attached
        for other in others:
            for weight, term in pod.terms.preferred:
                if term.selects(other, namespaces):
                    _add(weights, term, node, weight)
            for term in other.terms.affinity:
                if term.selects(pod, namespaces):
                    _add(weights, term, node, _HARD_WEIGHT)
            for weight, term in other.terms.preferred:
                if term.selects(pod, namespaces):
                    _add(weights, term, node, weight)
    return weights


def _add(weights: Counter[Domain], term: Term, node: NodeInfo, weight: int) -> None:
    for domain in _domains((term,), node):
        weights[domain] += weight
