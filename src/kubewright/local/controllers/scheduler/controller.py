"""The scheduler as a controller: read, decide, bind or report."""

from __future__ import annotations

from kubewright.api import builtin
from kubewright.api.errors import Conflict, NamespaceTerminating, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.cache.cache import Cache
from kubewright.local.controllers.pod import build_condition_patch, find_pod_condition
from kubewright.local.controllers.scheduler.claims import SELECTED_NODE, build_volume_binding
from kubewright.local.controllers.scheduler.cluster_state import (
    NAME,
    ClusterState,
    needs_scheduling,
)
from kubewright.local.controllers.scheduler.eviction import evict
from kubewright.local.controllers.scheduler.outcome import build_binding, build_unschedulable
from kubewright.local.controllers.scheduler.placement import Placement, plan_placement
from kubewright.local.controllers.scheduler.refusal import Plugin
from kubewright.local.controllers.scheduler.surroundings import (
    READS,
    read_budgets,
    read_incoming,
)
from kubewright.local.controllers.scheduler.waiting import (
    ALL,
    FREED,
    JOINED,
    STORED,
    PodChanges,
    Waiting,
    node_may_help,
)
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch, any_of, generation_changed, labels_changed

_WORKERS = 8


def build_scheduler() -> Controller:
    """Build the controller that binds pods to nodes.

    Several workers write, but one decides at a time: between what a decision reads and the
    assumption that it leaves nothing is awaited, so no two give away the same room. A pod that fits
    nowhere waits until something changes that those who refused it look at.
    """
    scheduler = Scheduler()
    helped, changes = scheduler.waiting.helped, PodChanges()
    return Controller(
        NAME,
        builtin.POD,
        scheduler.reconcile,
        watches=[
            Watch(builtin.NODE, helped(ALL), changes=node_may_help, is_start_known=True),
            Watch(builtin.POD, helped(FREED), changes=changes.makes_room, is_start_known=True),
            Watch(builtin.POD, helped(JOINED), changes=changes.is_company, is_start_known=True),
            Watch(
                builtin.PERSISTENT_VOLUME_CLAIM,
                scheduler.waiting.helped_by_claim,
                is_start_known=True,
            ),
            Watch(
                builtin.PERSISTENT_VOLUME, scheduler.waiting.helped_by_volume, is_start_known=True
            ),
            Watch(builtin.STORAGE_CLASS, helped(STORED), is_start_known=True),
            Watch(
                builtin.NAMESPACE,
                helped(frozenset((Plugin.POD_AFFINITY,))),
                changes=labels_changed,
                is_start_known=True,
            ),
        ],
        reads=READS,
        workers=_WORKERS,
        setup=scheduler.set_up,
        changes=any_of(generation_changed, labels_changed, changes.lost_nomination),
    )


class Scheduler:
    """Decides where pods run; what it remembers is found again in the API after a restart."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self._state = ClusterState()

    def set_up(self, cache: Cache) -> None:
        """Follow pods and nodes."""
        self._state.set_up(cache)

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Place one pod, and before it those of higher priority that nobody has tried yet."""
        pod = ctx.get(builtin.POD, key)
        if pod is not None and needs_scheduling(pod):
            priority = int(pod["spec"].get("priority") or 0)
            for urgent in self._state.more_urgent(priority, self.waiting):
                await self._schedule(urgent, ctx)
        await self._schedule(key, ctx)
        return None

    async def _schedule(self, key: NamespacedName, ctx: Context) -> None:
        pod = ctx.get(builtin.POD, key)
        if pod is None or not needs_scheduling(pod):
            self.waiting.remove(key)
            return
        if self._state.is_bound(pod):
            return
        # Where it waited for its volumes it may be told something else now.
        self._state.forget(key)
        placement = self._plan(ctx, pod)
        if not placement.node:
            self.waiting.add(pod, placement.plugins)
            await self._report(ctx, pod, placement)
        elif placement.volumes.is_empty:
            self._state.assume(pod, placement.node, is_bound=True)
            self.waiting.remove(key)
            await self._bind(ctx, pod, placement.node)
        else:
            self._state.assume(pod, placement.node, is_bound=False)
            self.waiting.add(pod, STORED)
            await _prepare_volumes(ctx, pod, placement)

    def _plan(self, ctx: Context, pod: Object) -> Placement:
        incoming = read_incoming(ctx, pod)
        return plan_placement(
            incoming,
            self._state.nodes(),
            self._state.reserved(incoming.info),
            lambda: read_budgets(ctx),
        )

    async def _bind(self, ctx: Context, pod: Object, node: str) -> None:
        key = NamespacedName.of(pod)
        path = builtin.POD.path(key.name, namespace=key.namespace, subresource="binding")
        try:
            await ctx.client.request("POST", path, body=build_binding(pod, node))
        except (NotFound, Conflict, NamespaceTerminating):
            # The pod is gone, or somebody else bound it: the store is about to show it.
            self._state.forget(key)
            return
        except BaseException:
            self._state.forget(key)
            raise
        note = f"Successfully assigned {key} to {node}"
        ctx.recorder.event(pod, "Normal", "Scheduled", note, action="Binding")
        ctx.logger.debug("bound %s to %s", key, node)

    async def _report(self, ctx: Context, pod: Object, placement: Placement) -> None:
        """Say why the pod waits, and make room for it where that was decided."""
        if placement.message:
            await _write_report(ctx, pod, placement)
        for victim in placement.victims:
            if not victim.is_terminating:
                await evict(ctx, pod, victim, placement.nominated or "")
        if placement.victims:
            priority = int(pod["spec"].get("priority") or 0)
            for key in self._state.outranked(placement.nominated or "", priority):
                await _patch_status(ctx, key, {"status": {"nominatedNodeName": None}})


async def _write_report(ctx: Context, pod: Object, placement: Placement) -> None:
    """Write the condition and the nomination, once: the same is not said twice."""
    before = find_pod_condition(pod, "PodScheduled") or {}
    told = before.get("message") == placement.message and before.get("status") == "False"
    nominated = (pod.get("status") or {}).get("nominatedNodeName") or ""
    wanted = nominated if placement.nominated is None else placement.nominated
    if told and nominated == wanted:
        return
    condition = build_unschedulable(pod, placement.message, format_time(ctx.clock.now()))
    patch = build_condition_patch(pod, condition)
    patch["status"]["nominatedNodeName"] = wanted or None
    await _patch_status(ctx, NamespacedName.of(pod), patch)
    ctx.recorder.event(pod, "Warning", "FailedScheduling", placement.message, action="Scheduling")


async def _prepare_volumes(ctx: Context, pod: Object, placement: Placement) -> None:
    """Choose volumes, or the node to make them for; their binding brings the next look.

    Until then the pod tells where it is expected (KEP-5278).
    """
    if (pod.get("status") or {}).get("nominatedNodeName") != placement.node:
        patch: Object = {"status": {"nominatedNodeName": placement.node}}
        await _patch_status(ctx, NamespacedName.of(pod), patch)
    for binding in placement.volumes.bind:
        key = NamespacedName("", binding.volume["metadata"]["name"])
        await ctx.patch(builtin.PERSISTENT_VOLUME, key, build_volume_binding(binding))
    for claim in placement.volumes.provision:
        annotations = claim["metadata"].get("annotations") or {}
        if annotations.get(SELECTED_NODE) != placement.node:
            patch = {"metadata": {"annotations": {SELECTED_NODE: placement.node}}}
            await ctx.patch(builtin.PERSISTENT_VOLUME_CLAIM, NamespacedName.of(claim), patch)


async def _patch_status(ctx: Context, key: NamespacedName, patch: Object) -> None:
    try:
        await ctx.patch(builtin.POD, key, patch, subresource="status")
    except NotFound:
        return
