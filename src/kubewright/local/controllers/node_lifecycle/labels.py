"""Labels of a node that older clients look for. Pure."""

from __future__ import annotations

from kubewright.api.resource import Object

_OLDER = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


def missing_labels(node: Object) -> dict[str, str]:
    """Return the older labels that do not say what the newer ones say."""
    labels = node["metadata"].get("labels") or {}
    return {
        older: labels[newer]
        for newer, older in _OLDER.items()
        if newer in labels and labels.get(older) != labels[newer]
    }
