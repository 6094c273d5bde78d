"""Generic ephemeral volumes: a claim made for one pod, which goes with it (KEP-1698)."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, NamespaceTerminating
from kubewright.api.metadata import build_owner_reference, controller_of
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Change, Entry
from kubewright.local.controllers.core_event import with_recorder
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.watch import Watch


def build_ephemeral_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that makes the claims of pods' ephemeral volumes."""
    return Controller(
        "ephemeral-volume-controller",
        builtin.POD,
        with_recorder(reconcile, recorder),
        changes=_has_ephemeral_volumes,
        watches=[Watch(builtin.PERSISTENT_VOLUME_CLAIM, _pod_of_claim)],
    )


def _has_ephemeral_volumes(change: Change) -> bool:
    return b'"ephemeral"' in change.entry.raw and not change.entry.meta.is_deleting


def _pod_of_claim(entry: Entry) -> Iterable[NamespacedName]:
    owner = entry.meta.controller
    if owner is None or owner.kind != "Pod":
        return []
    return [NamespacedName(entry.meta.namespace, owner.name)]


async def reconcile(key: NamespacedName, ctx: Context) -> None:
    """Make the claims that one pod lacks."""
    pod = ctx.get(builtin.POD, key)
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return
    for volume in pod["spec"].get("volumes") or ():
        if "ephemeral" not in volume:
            continue
        claim = build_claim(pod, volume)
        name = NamespacedName.of(claim)
        found = ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, name)
        if found is None:
            try:
                await ctx.create(claim)
            except NamespaceTerminating:
                return
            except AlreadyExists:
                # Ours or somebody's: the store is about to show it, which brings the next look.
                continue
        elif not _is_of(pod, found):
            reason = f"PVC {name} was not created for pod {key} (pod is not owner)"
            note = f"ephemeral volume {volume['name']}: {reason}"
            ctx.recorder.event(pod, "Warning", "FailedBinding", note)


def build_claim(pod: Object, volume: Object) -> Object:
    """Build the claim of an ephemeral volume, which its pod owns."""
    template = volume["ephemeral"]["volumeClaimTemplate"]
    given = template.get("metadata") or {}
    kept = {key: given[key] for key in ("labels", "annotations") if given.get(key)}
    owner = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"{pod['metadata']['name']}-{volume['name']}",
            "namespace": pod["metadata"]["namespace"],
            **kept,
            "ownerReferences": [build_owner_reference(owner)],
        },
        "spec": template["spec"],
    }


def _is_of(pod: Object, claim: Object) -> bool:
    owner = controller_of(claim)
    return owner is not None and owner["uid"] == pod["metadata"]["uid"]
