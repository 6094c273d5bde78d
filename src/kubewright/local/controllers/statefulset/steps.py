"""Carrying out the steps of a plan, with the Events that tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubewright.api import builtin
from kubewright.api.errors import (
    AlreadyExists,
    Conflict,
    KubewrightError,
    NamespaceTerminating,
    NotFound,
)
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.requests import PatchType
from kubewright.local.controllers.statefulset.plan import (
    CreateClaims,
    CreatePod,
    DeletePod,
    Refuse,
    Step,
    UpdateClaims,
    UpdatePod,
)
from kubewright.local.controllers.statefulset.stateful_set import StatefulSet
from kubewright.runtime.context import Context


async def apply_step(ctx: Context, stateful_set: StatefulSet, step: Step) -> None:
    """Carry one step out and record what happened.

    Raises:
        KubewrightError: the step was refused, or may not have happened.
    """
    match step:
        case CreatePod():
            await _create_pod(ctx, stateful_set, step)
        case CreateClaims():
            await _create_claims(ctx, stateful_set, step.pod, step.claims)
        case Refuse():
            _tell(ctx, stateful_set, "Create", step.pod, step.reason)
        case UpdatePod():
            await _update_pod(ctx, stateful_set, step)
        case UpdateClaims():
            _tell_conflicts(ctx, stateful_set, step.conflicts)
            await _update_claims(ctx, step.claims)
        case DeletePod():
            await _delete_pod(ctx, stateful_set, step.pod)


def _tell(
    ctx: Context, stateful_set: StatefulSet, verb: str, pod: Object, error: object = None
) -> None:
    """Record an Event about a pod; nobody is told of what a namespace that ends refuses."""
    if isinstance(error, NamespaceTerminating):
        return
    note = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {stateful_set.name}"
    if error is None:
        ctx.recorder.event(stateful_set.obj, "Normal", f"Successful{verb}", f"{note} successful")
    else:
        note = f"{note} failed error: {error}"
        ctx.recorder.event(stateful_set.obj, "Warning", f"Failed{verb}", note)


async def _create_pod(ctx: Context, stateful_set: StatefulSet, step: CreatePod) -> None:
    try:
        await _create_claims(ctx, stateful_set, step.pod, step.claims)
    except KubewrightError as error:
        name = step.claims[0]["metadata"]["name"]
        if not isinstance(error, NamespaceTerminating):
            reason = f"failed to create PVC {name}: {error}"
            _tell(ctx, stateful_set, "Create", step.pod, reason)
        raise
    try:
        await ctx.create(step.pod)
    except AlreadyExists:
        # The store is behind, or somebody else has the name: the next look tells.
        raise
    except KubewrightError as error:
        _tell(ctx, stateful_set, "Create", step.pod, error)
        raise
    _tell(ctx, stateful_set, "Create", step.pod)


async def _create_claims(
    ctx: Context, stateful_set: StatefulSet, pod: Object, claims: Iterable[Object]
) -> None:
    pod_name = pod["metadata"]["name"]
    for claim in claims:
        name = claim["metadata"]["name"]
        try:
            await ctx.create(claim)
        except AlreadyExists:
            continue
        except KubewrightError as error:
            if not isinstance(error, NamespaceTerminating):
                note = f"Create Claim {name} for Pod {pod_name} in StatefulSet {stateful_set.name}"
                note = f"{note} failed error: {error}"
                ctx.recorder.event(stateful_set.obj, "Warning", "FailedCreate", note)
            raise
        note = f"Create Claim {name} Pod {pod_name} in StatefulSet {stateful_set.name} success"
        ctx.recorder.event(stateful_set.obj, "Normal", "SuccessfulCreate", note)


async def _update_pod(ctx: Context, stateful_set: StatefulSet, step: UpdatePod) -> None:
    _tell_conflicts(ctx, stateful_set, step.conflicts)
    try:
        await _update_claims(ctx, step.claims)
        if step.after is not None:
            await ctx.replace(step.after)
    except KubewrightError as error:
        _tell(ctx, stateful_set, "Update", step.pod, error)
        raise
    _tell(ctx, stateful_set, "Update", step.pod)


async def _update_claims(ctx: Context, claims: Sequence[Object]) -> None:
    """Write owner references, each on the claim as it was seen."""
    for claim in claims:
        metadata = claim["metadata"]
        patch: Object = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "ownerReferences": metadata["ownerReferences"] or None,
            }
        }
        await ctx.patch(
            builtin.PERSISTENT_VOLUME_CLAIM,
            NamespacedName.of(claim),
            patch,
            type=PatchType.MERGE,
        )


def _tell_conflicts(ctx: Context, stateful_set: StatefulSet, names: Iterable[str]) -> None:
    for name in names:
        note = (
            f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging "
            "controller, the retention policy is ignored for this claim"
        )
        ctx.recorder.event(stateful_set.obj, "Warning", "ConflictingController", note)


async def _delete_pod(ctx: Context, stateful_set: StatefulSet, pod: Object) -> None:
    """Delete the very pod that was seen: one that has taken its name meanwhile stays."""
    try:
        await ctx.delete(builtin.POD, NamespacedName.of(pod), uid=pod["metadata"]["uid"])
    except (NotFound, Conflict):
        return
    except KubewrightError as error:
        _tell(ctx, stateful_set, "Delete", pod, error)
        raise
    _tell(ctx, stateful_set, "Delete", pod)
