"""Taint eviction: pods that do not tolerate their node's NoExecute taints are deleted in time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubewright.api import builtin
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time, parse_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.pod import (
    build_condition_patch,
    is_pod_finished,
    is_pod_terminating,
)
from kubewright.local.controllers.scheduler.filters import covers
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "taint-eviction-controller"

_BY_NODE = "kubewright/node"


def build_taint_eviction_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that evicts pods from tainted nodes."""
    pods = _PodsOfNodes()
    return Controller(
        NAME,
        builtin.POD,
        with_recorder(reconcile, recorder),
        watches=[Watch(builtin.NODE, pods.on)],
        setup=pods.set_up,
    )


class _PodsOfNodes:
    """Finds the pods on a node by an index."""

    def set_up(self, cache: Cache) -> None:
        self._store = cache.store(builtin.POD)
        self._store.add_index(_BY_NODE, _node_name)

    def on(self, node: Entry) -> Iterable[NamespacedName]:
        return [entry.key for entry in self._store.by_index(_BY_NODE, node.meta.name)]


def _node_name(entry: Entry) -> Iterable[str]:
    name = entry.object()["spec"].get("nodeName")
    return (name,) if name else ()


async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
    """Evict one pod when its time on a tainted node is over."""
    pod = ctx.get(builtin.POD, key)
    if pod is None or is_pod_terminating(pod) or is_pod_finished(pod):
        return None
    name = pod["spec"].get("nodeName")
    node = ctx.get(builtin.NODE, NamespacedName("", name)) if name else None
    if node is None:
        return None
    wait = plan_eviction(pod, node, ctx.clock.now())
    if wait is None:
        return None
    if wait > timedelta():
        return Result(after=wait)
    await _evict(ctx, pod)
    return None


def plan_eviction(pod: Object, node: Object, now: datetime) -> timedelta | None:
    """Return in what time a pod must leave its node; None when it may stay.

    Each NoExecute taint that no toleration covers means at once. Of the tolerations that cover
    one, the shortest `tolerationSeconds` counts, from when the taint was added.
    """
    tolerations = pod["spec"].get("tolerations") or ()
    waits = []
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") != "NoExecute":
            continue
        covering = [toleration for toleration in tolerations if covers(toleration, taint)]
        if not covering:
            return timedelta()
        limits = [t["tolerationSeconds"] for t in covering if "tolerationSeconds" in t]
        if limits:
            added = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else now
            waits.append(added + timedelta(seconds=max(min(limits), 0)) - now)
    return max(min(waits), timedelta()) if waits else None


async def _evict(ctx: Context, pod: Object) -> None:
    key = NamespacedName.of(pod)
    condition: Object = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": format_time(ctx.clock.now()),
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    note = f"Marking for deletion Pod {key}"
    ctx.recorder.event(pod, "Normal", "TaintManagerEviction", note)
    try:
        await ctx.patch(
            builtin.POD, key, build_condition_patch(pod, condition), subresource="status"
        )
        await ctx.delete(builtin.POD, key, uid=pod["metadata"]["uid"])
    except (NotFound, Conflict):
        return
