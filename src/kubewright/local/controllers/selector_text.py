"""A label selector as kube-controller-manager prints it in Events: the Go text of the struct."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubewright.api.resource import Object


def format_selector(selector: Object | None) -> str:
    """Write a `metav1.LabelSelector` as its Go `String` method does."""
    if selector is None:
        return "nil"
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    pairs = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    expressions = "".join(
        f"{_format_requirement(expression)},"
        for expression in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _format_requirement(expression: Mapping[str, Any]) -> str:
    values = " ".join(expression.get("values") or ())
    return (
        f"LabelSelectorRequirement{{Key:{expression['key']},Operator:{expression['operator']},"
        f"Values:[{values}],}}"
    )
