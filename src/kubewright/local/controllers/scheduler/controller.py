"""The scheduler as a controller: read, decide, bind or report."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import Conflict, NamespaceTerminating, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.local.controllers.pod import (
    build_condition_patch,
    is_pod_finished,
    is_pod_terminating,
)
from kubewright.local.controllers.scheduler.claims import (
    PERSISTENT_VOLUME,
    SELECTED_NODE,
    STORAGE_CLASS,
    Claims,
    is_reachable,
    read_claims,
)
from kubewright.local.controllers.scheduler.cluster_state import ClusterState
from kubewright.local.controllers.scheduler.placement import Placement, plan_placement
from kubewright.local.controllers.scheduler.pod_info import NodeInfo, PodInfo
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "default-scheduler"


def build_scheduler() -> Controller:
    """Build the controller that binds pods to nodes.

    One worker decides at a time, so that no two decisions give away the same room. A pod that fits
    nowhere waits until a node or a pod changes in a way that may help.
    """
    scheduler = Scheduler()
    return Controller(
        NAME,
        builtin.POD,
        scheduler.reconcile,
        watches=[
            Watch(builtin.NODE, scheduler.waiting, changes=helps_by_node),
            Watch(builtin.POD, scheduler.waiting, changes=helps_by_pod),
            Watch(builtin.PERSISTENT_VOLUME_CLAIM, scheduler.waiting),
            Watch(STORAGE_CLASS, scheduler.waiting),
        ],
        reads=[PERSISTENT_VOLUME],
        workers=1,
        setup=scheduler.set_up,
    )


def needs_scheduling(pod: Object) -> bool:
    """Tell whether a pod waits for this scheduler."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and (spec.get("schedulerName") or NAME) == NAME
        and not is_pod_terminating(pod)
        and not is_pod_finished(pod)
    )


def helps_by_node(change: Change) -> bool:
    """Tell whether a change of a node may make room: heartbeats do not."""
    if change.type is ChangeType.DELETED:
        return False
    if change.old is None:
        return True
    return NodeInfo.of(change.old.object()) != NodeInfo.of(change.entry.object())


def helps_by_pod(change: Change) -> bool:
    """Tell whether a change of a pod may make room, or be what another waits for."""
    if change.type is ChangeType.DELETED:
        return True
    pod = change.entry.object()
    if not pod["spec"].get("nodeName"):
        return False
    before = None if change.old is None else change.old.object()
    if before is None or not before["spec"].get("nodeName"):
        return True
    relabelled = before["metadata"].get("labels") != pod["metadata"].get("labels")
    return relabelled or (is_pod_finished(pod) and not is_pod_finished(before))


class Scheduler:
    """Decides where pods run; what it remembers is found again in the API after a restart."""

    def __init__(self) -> None:
        self._state = ClusterState()
        self._waiting: dict[NamespacedName, int] = {}

    def set_up(self, cache: Cache) -> None:
        """Follow pods and nodes."""
        self._state.set_up(cache)

    def waiting(self, _: Entry) -> Iterable[NamespacedName]:
        """Return the pods that fit nowhere so far, the most important ones first."""
        return sorted(self._waiting, key=lambda key: (-self._waiting[key], key))

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Place one pod."""
        pod = ctx.get(builtin.POD, key)
        if pod is None or not needs_scheduling(pod):
            self._waiting.pop(key, None)
            return None
        claims = _read_claims(ctx, pod)
        nodes = self._state.nodes(pod)
        placement = _place(pod, nodes, claims)
        if not placement.node:
            self._waiting[key] = int(pod["spec"].get("priority") or 0)
            await self._report(ctx, pod, placement)
        elif claims.unbound:
            # Whoever makes the volume waits for the choice, and its binding brings the next look.
            self._waiting[key] = int(pod["spec"].get("priority") or 0)
            await _select_node(ctx, claims.unbound, placement.node)
        else:
            self._waiting.pop(key, None)
            await self._bind(ctx, pod, placement.node)
        return None

    async def _bind(self, ctx: Context, pod: Object, node: str) -> None:
        metadata = pod["metadata"]
        key = NamespacedName.of(pod)
        self._state.assume(pod, node)
        path = builtin.POD.path(key.name, namespace=key.namespace, subresource="binding")
        try:
            await ctx.client.request("POST", path, body=build_binding(pod, node))
        except (NotFound, Conflict):
            # The pod is gone, or somebody else bound it: the store is about to show it.
            self._state.forget(key)
            return
        except BaseException as error:
            self._state.forget(key)
            if isinstance(error, NamespaceTerminating):
                return
            raise
        note = f"Successfully assigned {key} to {node}"
        ctx.recorder.event(pod, "Normal", "Scheduled", note, action="Binding")
        ctx.logger.debug("bound %s to %s", metadata["uid"], node)

    async def _report(self, ctx: Context, pod: Object, placement: Placement) -> None:
        """Say why the pod waits, and make room for it where that was decided."""
        if not placement.message:
            return
        condition = build_unschedulable(pod, placement.message, format_time(ctx.clock.now()))
        status = pod.get("status") or {}
        before = find_condition(status.get("conditions") or (), "PodScheduled") or {}
        told = before.get("message") == placement.message and before.get("status") == "False"
        nominated = placement.nominated or None
        if told and status.get("nominatedNodeName") == nominated:
            return
        patch = build_condition_patch(pod, condition)
        patch["status"]["nominatedNodeName"] = nominated
        await _patch_status(ctx, NamespacedName.of(pod), patch)
        ctx.recorder.event(
            pod, "Warning", "FailedScheduling", placement.message, action="Scheduling"
        )
        for victim in placement.victims:
            await _evict(ctx, pod, victim, placement.nominated)


def _place(pod: Object, nodes: list[NodeInfo], claims: Claims) -> Placement:
    if claims.message:
        return Placement(message=f"0/{len(nodes)} nodes are available: {claims.message}")
    reachable = [node for node in nodes if is_reachable(claims.volumes, node)]
    if nodes and not reachable:
        text = f"{len(nodes)} node(s) didn't match PersistentVolume's node affinity"
        return Placement(message=f"0/{len(nodes)} nodes are available: {text}.")
    return plan_placement(pod, reachable)


def _read_claims(ctx: Context, pod: Object) -> Claims:
    namespace = pod["metadata"]["namespace"]
    return read_claims(
        pod,
        lambda name: ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, NamespacedName(namespace, name)),
        lambda name: ctx.get(STORAGE_CLASS, NamespacedName("", name)),
        lambda name: ctx.get(PERSISTENT_VOLUME, NamespacedName("", name)),
    )


async def _select_node(ctx: Context, claims: Iterable[Object], node: str) -> None:
    for claim in claims:
        annotations = claim["metadata"].get("annotations") or {}
        if annotations.get(SELECTED_NODE) != node:
            patch: Object = {"metadata": {"annotations": {SELECTED_NODE: node}}}
            await ctx.patch(builtin.PERSISTENT_VOLUME_CLAIM, NamespacedName.of(claim), patch)


def build_binding(pod: Object, node: str) -> Object:
    """Build the binding of exactly this pod to a node."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "target": {"kind": "Node", "name": node},
    }


def build_unschedulable(pod: Object, message: str, now: str) -> Object:
    """Build the condition that says why a pod has no node."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    before = find_condition(conditions, "PodScheduled")
    same = before is not None and before.get("status") == "False"
    condition: Object = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": before["lastTransitionTime"] if before and same else now,
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    return condition


async def _evict(ctx: Context, pod: Object, victim: PodInfo, node: str) -> None:
    """Tell a victim why it goes, then delete it."""
    now = format_time(ctx.clock.now())
    condition: Object = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{NAME}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": now,
    }
    live = ctx.get(builtin.POD, victim.key)
    if live is None or live["metadata"]["uid"] != victim.uid:
        return
    if generation := live["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    await _patch_status(ctx, victim.key, build_condition_patch(live, condition))
    try:
        await ctx.delete(builtin.POD, victim.key, uid=victim.uid)
    except (NotFound, Conflict):
        return
    note = f"Preempted by pod {pod['metadata']['uid']} on node {node}"
    ctx.recorder.event(live, "Normal", "Preempted", note, action="Preempting", related=pod)


async def _patch_status(ctx: Context, key: NamespacedName, patch: Object) -> None:
    try:
        await ctx.patch(builtin.POD, key, patch, subresource="status")
    except NotFound:
        return
