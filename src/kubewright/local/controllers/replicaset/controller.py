"""The ReplicaSet controller: read, plan, write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kubewright.api import builtin
from kubewright.api.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    KubewrightError,
    NamespaceTerminating,
    NotFound,
)
from kubewright.api.metadata import controller_of
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.ownership import (
    apply_ownership,
    find_candidates,
    plan_ownership,
)
from kubewright.local.controllers.pod_views import PodViews
from kubewright.local.controllers.replicaset.pod_names import PodNames, describe_refusal
from kubewright.local.controllers.replicaset.scale import (
    Scale,
    build_failure,
    build_pod,
    build_status,
    next_availability,
    plan_batches,
    plan_scale,
    wished_replicas,
)
from kubewright.local.controllers.unseen import UnseenObjects
from kubewright.local.controllers.waking import Claimants
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "replicaset-controller"


def build_replicaset_controller(recorder: EventRecorder, views: PodViews) -> Controller:
    """Build the controller that makes and deletes the pods of ReplicaSets.

    Guarantee: never more pods than wished for because of a repeated creation. Within a process,
    pods count from when they were made, however late the store shows them. Across a crash, or an
    answer that was lost, the names of `PodNames` make the API server refuse the repetition.
    """
    claimants = Claimants(builtin.REPLICA_SET)
    reconciler = ReplicaSetReconciler(views)

    def set_up(cache: Cache) -> None:
        claimants.set_up(cache)
        views.set_up(cache)

    return Controller(
        NAME,
        builtin.REPLICA_SET,
        with_recorder(reconciler.reconcile, recorder),
        owns=[builtin.POD],
        watches=[Watch(builtin.POD, claimants.of_orphan)],
        setup=set_up,
    )


class ReplicaSetReconciler:
    """Reconciles ReplicaSets; what it remembers only keeps pods from being made again."""

    def __init__(self, views: PodViews) -> None:
        self._views = views
        self._used: dict[str, int] = {}
        self._made: dict[str, UnseenObjects] = {}
        self._uids: dict[NamespacedName, str] = {}

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Bring one ReplicaSet to its number of pods and write its status."""
        replica_set = ctx.get(builtin.REPLICA_SET, key)
        self._remember(key, replica_set)
        if replica_set is None:
            return None
        selector = LabelSelector.of(replica_set["spec"].get("selector"))
        candidates = find_candidates(
            ctx.store(builtin.POD), replica_set, selector, read=self._views.of
        )
        claim = plan_ownership(replica_set, selector, candidates)
        pods = await apply_ownership(ctx, replica_set, builtin.REPLICA_SET, builtin.POD, claim)
        pods += self._made[replica_set["metadata"]["uid"]].missing_in(ctx.store(builtin.POD))
        failure, error = None, None
        if replica_set["metadata"].get("deletionTimestamp") is None:
            failure, error = await self._scale(ctx, replica_set, pods)
        # What was made or deleted just now is counted when the store shows it, which brings the
        # next look; a status in between would only tell a step that nobody waits for.
        now = ctx.clock.now()
        status = build_status(replica_set, pods, now, failure=failure)
        if status != (replica_set.get("status") or {}):
            await ctx.replace({**replica_set, "status": status}, subresource="status")
        if error is not None:
            raise error
        return Result(after=next_availability(replica_set, pods, now))

    def _remember(self, key: NamespacedName, replica_set: Object | None) -> None:
        uid = replica_set["metadata"]["uid"] if replica_set else ""
        before = self._uids.get(key, "")
        if before and before != uid:
            self._used.pop(before, None)
            del self._uids[key], self._made[before]
        if uid:
            self._uids[key] = uid
            self._made.setdefault(uid, UnseenObjects())

    async def _scale(
        self, ctx: Context, replica_set: Object, pods: Sequence[Object]
    ) -> tuple[Object | None, KubewrightError | None]:
        """Create or delete pods; return the failure to report and the error to retry."""
        now = ctx.clock.now()
        # Siblings matter only for the choice whom to delete, and are many.
        related = (
            self._related(ctx, replica_set) if len(pods) > wished_replicas(replica_set) else []
        )
        plan = plan_scale(replica_set, pods, related, now)
        if plan.create:
            error = await self._create(ctx, replica_set, pods, plan.create)
            reason = "FailedCreate"
        else:
            error = await _delete(ctx, replica_set, plan)
            reason = "FailedDelete"
        if error is None or isinstance(error, AlreadyExists | Conflict):
            return None, error
        return build_failure(reason, str(error), now), error

    async def _create(
        self, ctx: Context, replica_set: Object, pods: Sequence[Object], count: int
    ) -> KubewrightError | None:
        """Create pods in batches that double; the first error ends it and is returned."""
        metadata = replica_set["metadata"]
        names = PodNames(metadata["name"], metadata["uid"])
        store = ctx.store(builtin.POD)
        free = names.next_names(
            [pod["metadata"]["name"] for pod in pods],
            lambda name: store.get(NamespacedName(metadata["namespace"], name)) is not None,
            after=self._used.get(metadata["uid"], -1),
        )
        for size in plan_batches(count):
            batch = [build_pod(replica_set, next(free), names.generate_name) for _ in range(size)]
            made_here = self._made[metadata["uid"]]
            results = await asyncio.gather(
                *(_create_pod(ctx, replica_set, pod, made_here) for pod in batch)
            )
            made = [names.index(name) for name, error in results if error is None]
            highest = max([i for i in made if i is not None], default=-1)
            self._used[metadata["uid"]] = max(highest, self._used.get(metadata["uid"], -1))
            errors = [error for _, error in results if error is not None]
            if errors:
                return None if isinstance(errors[0], NamespaceTerminating) else errors[0]
        return None

    def _related(self, ctx: Context, replica_set: Object) -> list[Object]:
        """Return the pods of all ReplicaSets that the owner of this one controls."""
        owner = controller_of(replica_set)
        store = ctx.store(builtin.REPLICA_SET)
        uids = {replica_set["metadata"]["uid"]}
        if owner is not None:
            uids.update(entry.meta.uid for entry in store.owned_by(owner["uid"]))
        pods = ctx.store(builtin.POD)
        return [self._views.of(entry) for uid in uids for entry in pods.owned_by(uid)]


async def _create_pod(
    ctx: Context, replica_set: Object, pod: Object, made: UnseenObjects
) -> tuple[str, KubewrightError | None]:
    name = pod["metadata"]["name"]
    try:
        made.add(await ctx.create(pod))
    except AlreadyExists as error:
        # The store is behind: the pod is ours and will appear, or the name will be seen as taken.
        return name, error
    except KubewrightError as error:
        if not isinstance(error, NamespaceTerminating):
            if isinstance(error, APIError):
                prefix = pod["metadata"]["generateName"]
                error.message = describe_refusal(error.message, name, prefix)
            note = f"Error creating: {error}"
            ctx.recorder.event(replica_set, "Warning", "FailedCreate", note)
        return name, error
    ctx.recorder.event(replica_set, "Normal", "SuccessfulCreate", f"Created pod: {name}")
    return name, None


async def _delete(ctx: Context, replica_set: Object, plan: Scale) -> KubewrightError | None:
    results = await asyncio.gather(*(_delete_pod(ctx, replica_set, pod) for pod in plan.delete))
    return next((error for error in results if error is not None), None)


async def _delete_pod(ctx: Context, replica_set: Object, pod: Object) -> KubewrightError | None:
    name = pod["metadata"]["name"]
    try:
        await ctx.delete(builtin.POD, NamespacedName.of(pod), uid=pod["metadata"]["uid"])
    except NotFound:
        return None
    except KubewrightError as error:
        note = f"Error deleting: {error}"
        ctx.recorder.event(replica_set, "Warning", "FailedDelete", note)
        return error
    ctx.recorder.event(replica_set, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")
    return None
