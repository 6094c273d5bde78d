"""`matchLabelKeys` and `mismatchLabelKeys` of a new pod: its own labels enter the selectors."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.api.resource import Object

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def merge_label_keys(pod: Object) -> None:
    """Add what the keys name to the selectors of affinity terms and spread constraints (KEP-3633).

    Done once, at creation: the selectors keep the values that the labels had then. A term without
    a selector matches nothing and stays so.
    """
    labels = pod["metadata"].get("labels") or {}
    for term in (*_affinity_terms(pod["spec"]), *_constraints(pod["spec"])):
        if term.get("labelSelector") is None:
            continue
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field) or ()
            if key in labels
        ]
        if added:
            selector = term["labelSelector"]
            expressions = [*(selector.get("matchExpressions") or ()), *added]
            term["labelSelector"] = {**selector, "matchExpressions": expressions}


def _affinity_terms(spec: Object) -> Iterator[Object]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        yield from affinity.get(_REQUIRED) or ()
        for preferred in affinity.get(_PREFERRED) or ():
            if preferred.get("podAffinityTerm"):
                yield preferred["podAffinityTerm"]


def _constraints(spec: Object) -> Iterator[Object]:
    yield from spec.get("topologySpreadConstraints") or ()
