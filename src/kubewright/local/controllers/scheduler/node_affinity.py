"""What a pod says of the nodes that it may be on: tolerations, selectors, node affinity. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import Requirement, match_all
from kubewright.local.controllers.scheduler.node_info import NodeInfo

_NAME = "metadata.name"


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
    wanted = spec.get("nodeSelector")
    if wanted and any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    terms = _required_terms(spec)
    return terms is None or matches_terms(terms, node)


def matches_terms(terms: Iterable[Object], node: NodeInfo) -> bool:
    """Tell whether a node matches one of the terms; an empty term matches none."""
    return any(matches_term(term, node) for term in terms)


def matches_term(term: Object, node: NodeInfo) -> bool:
    """Tell whether a node matches a node selector term."""
    labels = [Requirement.of(e) for e in term.get("matchExpressions") or ()]
    fields = [Requirement.of(e) for e in term.get("matchFields") or ()]
    if not labels and not fields:
        return False
    return match_all(labels, node.labels) and match_all(fields, {_NAME: node.name})


def named_nodes(spec: Object) -> frozenset[str] | None:
    """Return the only nodes that required affinity leaves by name; None where it leaves any.

    Pods of a DaemonSet each name one node: nobody need look at the others.
    """
    terms = _required_terms(spec)
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        fields = [e for e in term.get("matchFields") or () if e["key"] == _NAME]
        listed = [set(e.get("values") or ()) for e in fields if e["operator"] == "In"]
        if not listed:
            return None
        names |= set.intersection(*listed)
    return frozenset(names)


def _required_terms(spec: Object) -> list[Object] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []
