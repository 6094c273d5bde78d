"""Protection of what is in use: a claim that a pod mounts, a volume that is bound.

Both are deleted only when nobody uses them: a finalizer, which the API server puts on each of them,
holds them until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.metadata import controller_of
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, Entry
from kubewright.local.controllers.pod import is_pod_finished, is_pod_terminating
from kubewright.local.storage.claim import (
    claims_of_pod,
    keys_of_pod,
    phase_of,
)
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.watch import Watch

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
UNUSED = "Unused"

_BY_MOUNT = "protection/mount"

IsUser = Callable[[Object, Object], bool]


def build_claim_protection_controller() -> Controller:
    """Build the controller that keeps claims while pods use them, and says whether one does."""

    def set_up(cache: Cache) -> None:
        pods = cache.store(builtin.POD)
        pods.add_index(_BY_MOUNT, lambda entry: [str(key) for key in keys_of_pod(entry)])

    return Controller(
        "pvc-protection-controller",
        builtin.PERSISTENT_VOLUME_CLAIM,
        reconcile_claim,
        watches=[Watch(builtin.POD, keys_of_pod, is_start_known=True)],
        setup=set_up,
    )


async def reconcile_claim(key: NamespacedName, ctx: Context) -> None:
    """Write the finalizer and the condition of one claim."""
    claim = ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, key)
    if claim is None:
        return
    if claim["metadata"].get("deletionTimestamp") is None:
        if phase_of(claim) == "Bound":
            claim = await _write_condition(ctx, claim)
        await _ensure_finalizer(ctx, claim, CLAIM_FINALIZER)
    elif has_finalizer(claim, CLAIM_FINALIZER) and not await _is_used(ctx, claim, holds):
        await ctx.replace(without_finalizer(claim, CLAIM_FINALIZER))


async def _write_condition(ctx: Context, claim: Object) -> Object:
    used = _find_user(ctx, claim, mounts)
    before = find_condition((claim.get("status") or {}).get("conditions") or (), UNUSED)
    if before is not None and before.get("status") == ("False" if used else "True"):
        return claim
    # A store may not show the newest pod: only the server may say that there is none.
    used = used or await _is_used(ctx, claim, mounts)
    changed = build_condition(claim, used, format_time(ctx.clock.now()))
    if changed is None:
        return claim
    return await ctx.replace(changed, subresource="status")


def build_condition(claim: Object, used: bool, now: str) -> Object | None:
    """Build a claim that says whether a pod uses it; None when it says so (KEP-5541)."""
    conditions = (claim.get("status") or {}).get("conditions") or []
    before = find_condition(conditions, UNUSED)
    status = "False" if used else "True"
    if before is not None and before.get("status") == status:
        return None
    condition = {
        "type": UNUSED,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "PodUsingPVC" if used else "NoPodsUsingPVC",
        "message": (
            "A pod is currently referencing this PVC"
            if used
            else "No pods are currently referencing this PVC"
        ),
    }
    others = [c if c["type"] != UNUSED else condition for c in conditions]
    changed = others if before is not None else [*conditions, condition]
    return {**claim, "status": {**claim["status"], "conditions": changed}}


def mounts(pod: Object, claim: Object) -> bool:
    """Tell whether a pod has a use for a claim: it has not ended."""
    ended = is_pod_finished(pod) or (is_pod_terminating(pod) and not _runs(pod))
    return not ended and _names(pod, claim)


def holds(pod: Object, claim: Object) -> bool:
    """Tell whether a pod keeps a claim from being deleted: a node may have it mounted.

    A claim that was made for a pod is let go when the node is done with the pod: both may otherwise
    wait for each other.
    """
    if not pod["spec"].get("nodeName"):
        return False
    is_shut_down = (
        is_pod_terminating(pod) and pod["metadata"].get("deletionGracePeriodSeconds") == 0
    )
    return _names(pod, claim, with_own=not is_shut_down)


def _names(pod: Object, claim: Object, *, with_own: bool = True) -> bool:
    name = claim["metadata"]["name"]
    for mounted, is_own in claims_of_pod(pod):
        if mounted != name:
            continue
        if not is_own:
            return True
        owner = controller_of(claim)
        if with_own and owner is not None and owner["uid"] == pod["metadata"]["uid"]:
            return True
    return False


def _runs(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    states = (status.get("state") or {} for status in statuses)
    return any("terminated" not in state and "waiting" not in state for state in states)


def _find_user(ctx: Context, claim: Object, is_user: IsUser) -> bool:
    key = str(NamespacedName.of(claim))
    entries = ctx.store(builtin.POD).by_index(_BY_MOUNT, key)
    return any(is_user(entry.object(), claim) for entry in entries)


async def _is_used(ctx: Context, claim: Object, is_user: IsUser) -> bool:
    """Ask the store for a user of a claim, and the server when the store knows none."""
    if _find_user(ctx, claim, is_user):
        return True
    pods = await ctx.client.list(builtin.POD, namespace=claim["metadata"]["namespace"])
    return any(is_user(pod, claim) for pod in pods)


def build_volume_protection_controller() -> Controller:
    """Build the controller that keeps volumes while they are bound."""
    return Controller(
        "pv-protection-controller",
        builtin.PERSISTENT_VOLUME,
        reconcile_volume,
        changes=_concerns_protection,
    )


def _concerns_protection(change: Change) -> bool:
    entry: Entry = change.entry
    return entry.meta.is_deleting or VOLUME_FINALIZER not in (entry.meta.finalizers or ())


async def reconcile_volume(key: NamespacedName, ctx: Context) -> None:
    """Write the finalizer of one volume."""
    volume = ctx.get(builtin.PERSISTENT_VOLUME, key)
    if volume is None:
        return
    if volume["metadata"].get("deletionTimestamp") is None:
        await _ensure_finalizer(ctx, volume, VOLUME_FINALIZER)
    elif has_finalizer(volume, VOLUME_FINALIZER) and phase_of(volume) != "Bound":
        await ctx.replace(without_finalizer(volume, VOLUME_FINALIZER))


def has_finalizer(obj: Object, name: str) -> bool:
    """Tell whether an object has a finalizer."""
    return name in _finalizers(obj)


def without_finalizer(obj: Object, name: str) -> Object:
    """Build an object without one of its finalizers."""
    left = [finalizer for finalizer in _finalizers(obj) if finalizer != name]
    return {**obj, "metadata": {**obj["metadata"], "finalizers": left}}


def _finalizers(obj: Object) -> Iterable[str]:
    finalizers: Iterable[str] = obj["metadata"].get("finalizers") or ()
    return finalizers


async def _ensure_finalizer(ctx: Context, obj: Object, name: str) -> None:
    if not has_finalizer(obj, name):
        finalizers = [*_finalizers(obj), name]
        await ctx.replace({**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}})
