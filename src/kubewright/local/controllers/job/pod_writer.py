"""Makes, deletes and lets go the pods of a Job; says what it did in Events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from kubewright.api import builtin
from kubewright.api.errors import (
    AlreadyExists,
    Invalid,
    KubewrightError,
    NamespaceTerminating,
    NotFound,
)
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.requests import PatchType
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import TRACKING_FINALIZER, is_tracked, uid_of
from kubewright.local.controllers.job.pod_plan import PodPlan
from kubewright.local.controllers.job.pod_template import NameSource, build_pod
from kubewright.local.controllers.job.status import PodChanges
from kubewright.local.controllers.job.tally import Tally
from kubewright.local.controllers.pod import is_pod_ready
from kubewright.local.controllers.replicaset.scale import plan_batches
from kubewright.runtime.context import Context


async def apply_pod_plan(
    ctx: Context, job: Job, tally: Tally, plan: PodPlan, names: NameSource
) -> PodChanges:
    """Delete or create pods as planned; the error of the result is to be raised after all else."""
    if plan.delete:
        return await _delete_all(ctx, job, plan)
    return await _create_all(ctx, job, tally, plan.create, names)


async def _create_all(
    ctx: Context, job: Job, tally: Tally, indexes: Sequence[int | None], names: NameSource
) -> PodChanges:
    """Create pods in batches that double; the first error ends it."""
    changes, rest = PodChanges(), list(indexes)
    for size in plan_batches(len(rest)):
        batch, rest = rest[:size], rest[size:]
        results = await asyncio.gather(*(_create(ctx, job, tally, i, names) for i in batch))
        changes.created += [made for made in results if not isinstance(made, KubewrightError)]
        errors = [error for error in results if isinstance(error, KubewrightError)]
        if errors:
            ends = isinstance(errors[0], NamespaceTerminating)
            changes.error = None if ends else errors[0]
            break
    return changes


async def _create(
    ctx: Context, job: Job, tally: Tally, index: int | None, names: NameSource
) -> Object | KubewrightError:
    name, generate_name = names.take(index)
    try:
        made = await ctx.create(build_pod(job, tally, index, name, generate_name))
    except (AlreadyExists, NamespaceTerminating) as error:
        # The view is behind: the pod is ours and will appear, or the name will be seen as taken.
        return error
    except KubewrightError as error:
        ctx.recorder.event(job.obj, "Warning", "FailedCreate", f"Error creating: {error}")
        return error
    names.note_used(index, name)
    ctx.recorder.event(job.obj, "Normal", "SuccessfulCreate", f"Created pod: {name}")
    return made


async def _delete_all(ctx: Context, job: Job, plan: PodPlan) -> PodChanges:
    keeps = plan.keeps_count
    results = await asyncio.gather(*(_delete(ctx, job, pod, keeps=keeps) for pod in plan.delete))
    gone = [pod for pod, error in zip(plan.delete, results, strict=True) if error is None]
    return PodChanges(
        deleted=len(gone),
        deleted_ready=sum(is_pod_ready(pod) for pod in gone),
        error=next((error for error in results if error is not None), None),
    )


async def _delete(ctx: Context, job: Job, pod: Object, *, keeps: bool) -> KubewrightError | None:
    name = pod["metadata"]["name"]
    if not keeps and (error := await release_pod(ctx, pod)) is not None:
        return error
    try:
        await ctx.delete(builtin.POD, NamespacedName.of(pod), uid=uid_of(pod))
    except NotFound:
        return None
    except KubewrightError as error:
        ctx.recorder.event(job.obj, "Warning", "FailedDelete", f"Error deleting: {error}")
        return error
    ctx.recorder.event(job.obj, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")
    return None


async def release_pods(
    ctx: Context, pods: Iterable[Object]
) -> tuple[set[str], KubewrightError | None]:
    """Remove the finalizer of pods; return the UIDs that have it no more, and the first error."""
    wanted = list(pods)
    errors = await asyncio.gather(*(release_pod(ctx, pod) for pod in wanted))
    released = {uid_of(pod) for pod, error in zip(wanted, errors, strict=True) if error is None}
    return released, next((error for error in errors if error is not None), None)


async def release_pod(ctx: Context, pod: Object) -> KubewrightError | None:
    """Remove the finalizer of one pod; one that is gone has none."""
    if not is_tracked(pod):
        return None
    # With its UID, as another pod may have the name by now; that one answers Invalid.
    patch = {
        "metadata": {
            "uid": uid_of(pod),
            "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
        }
    }
    try:
        await ctx.patch(builtin.POD, NamespacedName.of(pod), patch, type=PatchType.STRATEGIC)
    except NotFound:
        return None
    except KubewrightError as error:
        return None if _is_other_pod(error) else error
    return None


def _is_other_pod(error: KubewrightError) -> bool:
    """Tell whether a patch was refused because its UID is not that of the pod of the name."""
    causes = error.details.causes if isinstance(error, Invalid) and error.details else ()
    return any(cause.field == "metadata.uid" for cause in causes)
