"""The DaemonSet controller: read, plan, write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta

from kubewright.api import builtin
from kubewright.api.errors import (
    AlreadyExists,
    Conflict,
    KubewrightError,
    NamespaceTerminating,
    NotFound,
)
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.cache.store import Store
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.daemonset.daemon_set import HASH_LABEL, DaemonSet
from kubewright.local.controllers.daemonset.placement import Placement
from kubewright.local.controllers.daemonset.plan import Plan, plan_nodes, plan_rollout
from kubewright.local.controllers.daemonset.pod import build_pod
from kubewright.local.controllers.daemonset.replacement_backoff import ReplacementBackoff
from kubewright.local.controllers.daemonset.status import build_status, next_availability
from kubewright.local.controllers.history import Revision, claim_revisions
from kubewright.local.controllers.history.revisions import (
    History,
    delete_revisions,
    ensure_revision,
)
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.ownership import (
    apply_ownership,
    find_candidates,
    plan_ownership,
)
from kubewright.local.controllers.replicaset.pod_names import PodNames
from kubewright.local.controllers.replicaset.scale import BURST_REPLICAS, plan_batches
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.waking import Claimants
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "daemonset-controller"
SALT = "DaemonSet/"
"""Keeps its revisions apart from those of a StatefulSet of the same name and template."""


def build_daemonset_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that keeps a pod of each DaemonSet on each node that it fits.

    Guarantee: a creation that is repeated makes no second pod, since the names of `PodNames` make
    the API server refuse it. Flow: claim pods and revisions, plan, carry the plan out, write the
    status once.
    """
    claimants = Claimants(builtin.DAEMON_SET)
    everyone = _Everyone()
    reconciler = DaemonSetReconciler()

    def set_up(cache: Cache) -> None:
        claimants.set_up(cache)
        everyone.set_up(cache)

    return Controller(
        NAME,
        builtin.DAEMON_SET,
        with_recorder(reconciler.reconcile, recorder),
        owns=[builtin.POD, builtin.CONTROLLER_REVISION],
        watches=[
            Watch(builtin.POD, claimants.of_orphan),
            Watch(builtin.NODE, everyone.of_node, changes=_moves_daemons, is_start_known=True),
        ],
        setup=set_up,
    )


def _moves_daemons(change: Change) -> bool:
    """Let through what may decide where daemons run: labels and taints, not heartbeats."""
    if change.old is None or change.type is ChangeType.DELETED:
        return True
    before, after = change.old, change.entry
    if (before.meta.labels or {}) != (after.meta.labels or {}):
        return True
    return _taints(before) != _taints(after)


def _taints(entry: Entry) -> object:
    return (entry.object().get("spec") or {}).get("taints")


class _Everyone:
    """All DaemonSets: any of them may have a use for a node."""

    def __init__(self) -> None:
        self._store: Store | None = None

    def set_up(self, cache: Cache) -> None:
        self._store = cache.store(builtin.DAEMON_SET)

    def of_node(self, _: Entry) -> Iterable[NamespacedName]:
        return [entry.key for entry in self._store.list()] if self._store is not None else []


class DaemonSetReconciler:
    """Reconciles DaemonSets; what it remembers are delays, and names not to use again."""

    def __init__(self) -> None:
        self._backoff = ReplacementBackoff()
        self._used: dict[str, int] = {}
        self._uids: dict[NamespacedName, str] = {}

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Bring one DaemonSet a step further."""
        obj = ctx.get(builtin.DAEMON_SET, key)
        self._remember(key, obj)
        # Of one that is being deleted, nobody knows what the garbage collector took already.
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return None
        daemon_set = DaemonSet(obj)
        if daemon_set.selects_everything:
            note = "This daemon set is selecting all pods. A non-empty selector is required."
            ctx.recorder.event(obj, "Warning", "SelectingAll", note)
            return None
        revisions = await claim_revisions(ctx, obj, builtin.DAEMON_SET)
        history = await ensure_revision(ctx, obj, revisions, hash_label=HASH_LABEL, salt=SALT)
        placement = await _look(ctx, daemon_set, history)
        wait, error = await self._manage(ctx, placement)
        status = build_status(placement, history.collisions)
        if status != daemon_set.status:
            await ctx.replace({**obj, "status": status}, subresource="status")
        if error is not None:
            raise error
        await delete_revisions(ctx, find_surplus(placement, history))
        waits = [wait, next_availability(placement)]
        return Result(after=min((w for w in waits if w is not None), default=None))

    def _remember(self, key: NamespacedName, obj: Object | None) -> None:
        uid = obj["metadata"]["uid"] if obj else ""
        before = self._uids.get(key, "")
        if before and before != uid:
            self._used.pop(before, None)
            self._backoff.forget(before)
            del self._uids[key]
        if obj:
            self._uids[key] = uid
            self._backoff.forget(uid, DaemonSet(obj).status.get("observedGeneration") or 0)

    async def _manage(
        self, ctx: Context, placement: Placement
    ) -> tuple[timedelta | None, KubewrightError | None]:
        """Carry out what is planned; return when a failed pod may be replaced, and an error."""
        waits: list[timedelta] = []
        daemon_set = placement.daemon_set
        owner = (daemon_set.uid, int(daemon_set.status.get("observedGeneration") or 0))

        def may_replace(node: str) -> bool:
            wait = self._backoff.wait(owner, node, ctx.clock.monotonic())
            waits.extend([wait] if wait else [])
            return not wait

        plan = plan_nodes(placement, may_replace)
        if plan.is_empty:
            plan = plan_rollout(placement)
        _tell_ended(ctx, placement.daemon_set, plan)
        error = await self._create(ctx, placement, plan.create[:BURST_REPLICAS])
        results = await asyncio.gather(
            *(_delete_pod(ctx, daemon_set, pod) for pod in plan.delete[:BURST_REPLICAS])
        )
        error = error or next((e for e in results if e is not None), None)
        if isinstance(error, NamespaceTerminating):
            error = None
        return min(waits, default=None), error

    async def _create(
        self, ctx: Context, placement: Placement, nodes: Sequence[str]
    ) -> KubewrightError | None:
        """Create pods in batches that double; the first error ends it and is returned."""
        daemon_set, store = placement.daemon_set, ctx.store(builtin.POD)
        namespace = daemon_set.obj["metadata"]["namespace"]
        names = PodNames(daemon_set.name, daemon_set.uid)
        free = names.next_names(
            [pod["metadata"]["name"] for pod in placement.pods],
            lambda name: store.get(NamespacedName(namespace, name)) is not None,
            after=self._used.get(daemon_set.uid, -1),
        )
        pods = [
            build_pod(daemon_set, placement.hashed, node, name, names.generate_name)
            for node, name in zip(nodes, free, strict=False)
        ]
        for size in plan_batches(len(pods)):
            batch, pods = pods[:size], pods[size:]
            results = await asyncio.gather(*(_create_pod(ctx, daemon_set, pod) for pod in batch))
            for pod, error in zip(batch, results, strict=True):
                index = names.index(pod["metadata"]["name"])
                if error is None and index is not None:
                    self._used[daemon_set.uid] = max(index, self._used.get(daemon_set.uid, -1))
            if error := next((e for e in results if e is not None), None):
                return error
        return None


async def _look(ctx: Context, daemon_set: DaemonSet, history: History) -> Placement:
    obj = daemon_set.obj
    selector = LabelSelector.of(obj["spec"].get("selector"))
    candidates = find_candidates(ctx.store(builtin.POD), obj, selector)
    claim = plan_ownership(obj, selector, candidates)
    pods = await apply_ownership(ctx, obj, builtin.DAEMON_SET, builtin.POD, claim)
    return Placement(
        daemon_set,
        nodes=[NodeInfo.of(node) for node in ctx.list(builtin.NODE)],
        pods=pods,
        hashed=history.update.labels.get(HASH_LABEL) or history.update.name,
        now=ctx.clock.now(),
    )


def find_surplus(placement: Placement, history: History) -> list[Revision]:
    """Return the oldest revisions beyond the limit that no pod has."""
    old = [r for r in history.revisions if r.name != history.update.name]
    live = {(pod["metadata"].get("labels") or {}).get(HASH_LABEL) for pod in placement.pods}
    dead = [revision for revision in old if revision.labels.get(HASH_LABEL) not in live]
    return dead[: max(len(old) - placement.daemon_set.history_limit, 0)]


def _tell_ended(ctx: Context, daemon_set: DaemonSet, plan: Plan) -> None:
    for pod, node in plan.failed:
        note = f"Found failed daemon pod {NamespacedName.of(pod)} on node {node}"
        note = f"{note}, will try to kill it"
        ctx.recorder.event(daemon_set.obj, "Warning", "FailedDaemonPod", note)
    for pod, node in plan.succeeded:
        note = f"Found succeeded daemon pod {NamespacedName.of(pod)} on node {node}"
        note = f"{note}, will try to delete it"
        ctx.recorder.event(daemon_set.obj, "Normal", "SucceededDaemonPod", note)


async def _create_pod(ctx: Context, daemon_set: DaemonSet, pod: Object) -> KubewrightError | None:
    try:
        await ctx.create(pod)
    except (AlreadyExists, NamespaceTerminating) as error:
        # The store is behind: the pod is ours and will appear, or the name will be seen as taken.
        return error
    except KubewrightError as error:
        ctx.recorder.event(daemon_set.obj, "Warning", "FailedCreate", f"Error creating: {error}")
        return error
    note = f"Created pod: {pod['metadata']['name']}"
    ctx.recorder.event(daemon_set.obj, "Normal", "SuccessfulCreate", note)
    return None


async def _delete_pod(ctx: Context, daemon_set: DaemonSet, pod: Object) -> KubewrightError | None:
    try:
        await ctx.delete(builtin.POD, NamespacedName.of(pod), uid=pod["metadata"]["uid"])
    except (NotFound, Conflict):
        return None
    except KubewrightError as error:
        ctx.recorder.event(daemon_set.obj, "Warning", "FailedDelete", f"Error deleting: {error}")
        return error
    note = f"Deleted pod: {pod['metadata']['name']}"
    ctx.recorder.event(daemon_set.obj, "Normal", "SuccessfulDelete", note)
    return None
