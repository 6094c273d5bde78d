"""Claims of volumes. Pure."""

from __future__ import annotations

import kubewright as kw


def build_claim(
    name: str, size: str, storage_class: str = "", labels: dict[str, str] | None = None
) -> kw.Object:
    """Build a claim for one node at a time; without a class, of the cluster's default."""
    spec: kw.Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
    }


def is_smaller(claim: kw.Object, size: str) -> bool:
    """Tell whether a claim asks for less than a size."""
    asked = claim["spec"]["resources"]["requests"]["storage"]
    return kw.Quantity(asked) < kw.Quantity(size)
