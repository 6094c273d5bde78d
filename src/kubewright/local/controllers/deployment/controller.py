"""The Deployment controller: read, plan, write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, APIError, NamespaceTerminating, NotFound
from kubewright.api.metadata import controller_of
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.cache.store import Store
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.deployment import status as statuses
from kubewright.local.controllers.deployment.deployment import Deployment
from kubewright.local.controllers.deployment.replica_set import REVISION, ReplicaSet
from kubewright.local.controllers.deployment.revision import find_new_replica_set
from kubewright.local.controllers.deployment.rollout import (
    CreateReplicaSet,
    DeleteReplicaSet,
    Rollout,
    Step,
    plan_rollout,
)
from kubewright.local.controllers.deployment.template_hash import is_same_template
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.ownership import (
    apply_ownership,
    find_candidates,
    plan_ownership,
)
from kubewright.local.controllers.pod import is_pod_finished
from kubewright.local.controllers.pod_views import PodViews
from kubewright.local.controllers.waking import Claimants
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "deployment-controller"


def build_deployment_controller(recorder: EventRecorder, views: PodViews) -> Controller:
    """Build the controller that rolls Deployments out.

    Flow: claim ReplicaSets, `plan_rollout`, carry out its steps, write the status once. A crash
    between two steps is harmless: the plan is made afresh from what is there, the name of a
    ReplicaSet follows from its template, and every update carries the version it was decided on.
    """
    claimants = Claimants(builtin.DEPLOYMENT)

    def ends_pod(change: Change) -> bool:
        """Let through what can free a Recreate rollout: pods that are gone or finished."""
        return change.type is ChangeType.DELETED or is_pod_finished(views.of(change.entry))

    owners = _PodOwners()

    def set_up(cache: Cache) -> None:
        views.set_up(cache)
        claimants.set_up(cache)
        owners.set_up(cache)

    return Controller(
        NAME,
        builtin.DEPLOYMENT,
        with_recorder(reconcile, recorder),
        owns=[builtin.REPLICA_SET],
        watches=[
            Watch(builtin.REPLICA_SET, claimants.of_orphan),
            Watch(builtin.POD, owners.deployment_of, changes=ends_pod),
        ],
        setup=set_up,
    )


async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
    """Bring one Deployment a step further."""
    deployment = ctx.get(builtin.DEPLOYMENT, key)
    if deployment is None:
        return None
    selector = LabelSelector.of(deployment["spec"].get("selector"))
    candidates = find_candidates(ctx.store(builtin.REPLICA_SET), deployment, selector)
    claim = plan_ownership(deployment, selector, candidates)
    replica_sets = await apply_ownership(
        ctx, deployment, builtin.DEPLOYMENT, builtin.REPLICA_SET, claim
    )
    rollout = plan_rollout(
        deployment,
        replica_sets,
        has_old_pods=_has_old_pods(deployment, replica_sets, ctx.store(builtin.POD)),
        now=ctx.clock.now(),
    )
    for step in rollout.steps:
        await _apply_step(ctx, deployment, step, rollout)
    await _write_status(ctx, deployment, rollout.status, rollout.revision)
    return Result(after=rollout.after)


async def _apply_step(ctx: Context, deployment: Object, step: Step, rollout: Rollout) -> None:
    if isinstance(step, CreateReplicaSet):
        await _create(ctx, deployment, step.replica_set, rollout)
        _tell_scaling(ctx, deployment, step.replica_set, 0, step.replica_set.replicas)
    elif isinstance(step, DeleteReplicaSet):
        metadata = step.replica_set.obj["metadata"]
        key = NamespacedName.of(step.replica_set.obj)
        try:
            await ctx.delete(builtin.REPLICA_SET, key, uid=metadata["uid"])
        except NotFound:
            return
    else:
        await ctx.replace(step.after.obj)
        _tell_scaling(ctx, deployment, step.after, step.before.replicas, step.after.replicas)


def _tell_scaling(
    ctx: Context, deployment: Object, replica_set: ReplicaSet, before: int, after: int
) -> None:
    if before == after:
        return
    way = "up" if after > before else "down"
    note = f"Scaled {way} replica set {replica_set.name} from {before} to {after}"
    ctx.recorder.event(deployment, "Normal", "ScalingReplicaSet", note, action="Scaling")


async def _create(
    ctx: Context, deployment: Object, replica_set: ReplicaSet, rollout: Rollout
) -> None:
    try:
        await ctx.create(replica_set.obj)
    except AlreadyExists:
        await _settle_collision(ctx, deployment, replica_set)
        # Either the store is behind, or the count of collisions gives another name next time.
        raise
    except APIError as error:
        if isinstance(error, NamespaceTerminating):
            return
        message = f'Failed to create new replica set "{replica_set.name}": {error}'
        failed = statuses.build_condition(
            statuses.PROGRESSING, "False", "ReplicaSetCreateError", message, ctx.clock.now()
        )
        conditions = statuses.set_condition(rollout.status["conditions"], failed)
        status = {**rollout.status, "conditions": conditions}
        ctx.recorder.event(deployment, "Warning", "ReplicaSetCreateError", message)
        await _write_status(ctx, deployment, status, Deployment(deployment).revision)
        raise


async def _settle_collision(ctx: Context, deployment: Object, replica_set: ReplicaSet) -> None:
    """Count a collision when the name is taken by something that is not ours."""
    key = NamespacedName.of(replica_set.obj)
    live = await ctx.client.get(builtin.REPLICA_SET, key.name, namespace=key.namespace)
    controller = controller_of(live)
    ours = controller is not None and controller["uid"] == deployment["metadata"]["uid"]
    wanted = deployment["spec"]["template"]
    if ours and is_same_template(live["spec"]["template"], wanted):
        return
    status = dict(deployment.get("status") or {})
    status["collisionCount"] = Deployment(deployment).count("collisionCount") + 1
    await _write_status(ctx, deployment, status, Deployment(deployment).revision)


async def _write_status(
    ctx: Context, deployment: Object, status: Object, revision: str | None
) -> None:
    """Write status and revision together, and only when they differ.

    The status subresource of apps/v1 lets annotations through, so one request does for both.
    """
    before = Deployment(deployment)
    if status == before.status and revision == before.revision:
        return
    written = {**deployment, "status": status}
    if revision is not None:
        annotations = {**before.annotations, REVISION: revision}
        written["metadata"] = {**deployment["metadata"], "annotations": annotations}
    await ctx.replace(written, subresource="status")


def _has_old_pods(deployment: Object, replica_sets: Sequence[Object], pods: Store) -> bool:
    """Tell whether pods of other templates still exist; finished ones do not count."""
    view = Deployment(deployment)
    if not view.is_recreate:
        return False
    models = [ReplicaSet.of(obj) for obj in replica_sets]
    new = find_new_replica_set(view, models)
    uids = [r.obj["metadata"]["uid"] for r in models if new is None or r.name != new.name]
    return any(not is_pod_finished(entry.object()) for uid in uids for entry in pods.owned_by(uid))


class _PodOwners:
    """Finds the Deployment above a pod, by way of its ReplicaSet."""

    def __init__(self) -> None:
        self._replica_sets: Store | None = None

    def set_up(self, cache: Cache) -> None:
        self._replica_sets = cache.store(builtin.REPLICA_SET)

    def deployment_of(self, pod: Entry) -> Iterable[NamespacedName]:
        reference = pod.meta.controller
        if reference is None or reference.kind != "ReplicaSet" or self._replica_sets is None:
            return ()
        key = NamespacedName(pod.meta.namespace, reference.name)
        entry = self._replica_sets.get(key)
        owner = None if entry is None else entry.meta.controller
        if owner is None or owner.kind != "Deployment":
            return ()
        return (NamespacedName(pod.meta.namespace, owner.name),)
