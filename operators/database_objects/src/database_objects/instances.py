"""The instances of a database: a StatefulSet of which one is written to and the others copy it."""

from __future__ import annotations

import kubewright as kw
from kubewright.api import builtin, is_condition_true

PRIMARY, REPLICA = "primary", "replica"


def is_rolled_out(stateful_set: kw.Object) -> bool:
    """Tell whether all pods of a StatefulSet are of its last template."""
    status = stateful_set.get("status") or {}
    if status.get("observedGeneration") != stateful_set.get("metadata", {}).get("generation"):
        return False
    revision = status.get("updateRevision")
    is_current = revision is not None and status.get("currentRevision") == revision
    return is_current and (status.get("updatedReplicas") or 0) >= (status.get("replicas") or 0)


async def label_instances(
    ctx: kw.Context, namespace: str, labels: dict[str, str], role: str, primary: str
) -> None:
    """Label each pod with its role, and note in `initialized` that the primary has come to be.

    From then on an empty volume of the primary is a loss, not a beginning.

    Arguments:
        ctx: of the reconcile.
        namespace: of the pods.
        labels: that select them.
        role: the label that says it.
        primary: the name of the pod that is written to; its StatefulSet's ConfigMap `…-topology`
            holds the note.
    """
    for pod in ctx.list(builtin.POD, namespace=namespace, labels=labels):
        is_primary = pod["metadata"]["name"] == primary
        wanted = PRIMARY if is_primary else REPLICA
        if pod["metadata"]["labels"].get(role) != wanted:
            change = {"metadata": {"labels": {role: wanted}, "uid": pod["metadata"]["uid"]}}
            await ctx.patch(builtin.POD, kw.NamespacedName.of(pod), change)
        if is_primary and is_condition_true(pod, "Ready"):
            await _note_initialized(ctx, namespace, primary.rpartition("-")[0])


async def _note_initialized(ctx: kw.Context, namespace: str, name: str) -> None:
    key = kw.NamespacedName(namespace, f"{name}-topology")
    topology = ctx.get(builtin.CONFIG_MAP, key)
    if topology is not None and topology["data"].get("initialized") != "true":
        await ctx.patch(builtin.CONFIG_MAP, key, {"data": {"initialized": "true"}})
