"""Claims of volumes, and their growth, which a StatefulSet cannot say."""

from __future__ import annotations

import kubewright as kw
from kubewright.api import builtin


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


async def grow_volumes(
    ctx: kw.Context, key: kw.NamespacedName, labels: dict[str, str], volume: str, size: str
) -> None:
    """Ask for larger volumes of the instances of a StatefulSet, where they are smaller.

    One whose template of claims is an old one is taken away, for a template never changes. Its pods
    go on; the engine makes it anew, and that adopts them.

    Arguments:
        ctx: of the reconcile.
        key: of the StatefulSet.
        labels: of its claims.
        volume: the name of the template.
        size: what is asked for.
    """
    live = ctx.get(builtin.STATEFUL_SET, key)
    if live is not None and not live["metadata"].get("deletionTimestamp"):
        templates = live["spec"].get("volumeClaimTemplates") or []
        if any(is_smaller(claim, size) for claim in templates):
            uid = live["metadata"]["uid"]
            await ctx.delete(builtin.STATEFUL_SET, key, uid=uid, propagation="Orphan")
    claims = ctx.list(builtin.PERSISTENT_VOLUME_CLAIM, namespace=key.namespace, labels=labels)
    for claim in claims:
        is_instance = claim["metadata"]["name"].startswith(f"{volume}-{key.name}-")
        if is_instance and is_smaller(claim, size):
            wanted = {"spec": {"resources": {"requests": {"storage": size}}}}
            target = kw.NamespacedName.of(claim)
            await ctx.patch(builtin.PERSISTENT_VOLUME_CLAIM, target, wanted)
