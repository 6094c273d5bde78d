"""Taint eviction: pods that do not tolerate their node's NoExecute taints are deleted in time."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubewright.api import builtin
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time, parse_time
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.node_lifecycle.pods_of_nodes import PodsOfNodes
from kubewright.local.controllers.pod import (
    build_condition_patch,
    is_pod_finished,
    is_pod_terminating,
)
from kubewright.local.controllers.pod_views import PodViews
from kubewright.local.controllers.scheduler.filters import covers
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "taint-eviction-controller"

_REASON = "TaintManagerEviction"


def build_taint_eviction_controller(recorder: EventRecorder, views: PodViews) -> Controller:
    """Build the controller that evicts pods from tainted nodes."""
    pods = PodsOfNodes("kubewright/eviction/node", views)
    return Controller(
        NAME,
        builtin.POD,
        with_recorder(_Reconciler(views).reconcile, recorder),
        watches=[Watch(builtin.NODE, pods.keys_on, changes=_taints_changed)],
        setup=pods.set_up,
    )


def _taints_changed(change: Change) -> bool:
    """Tell whether a node's taints changed: heartbeats do not matter."""
    if change.old is None or change.type is ChangeType.DELETED:
        return True
    before, after = (e.object().get("spec") or {} for e in (change.old, change.entry))
    return bool(before.get("taints") != after.get("taints"))


class _Reconciler:
    """Evicts pods; it remembers whose time runs, to tell when it does so no more."""

    def __init__(self, views: PodViews) -> None:
        self._views = views
        self._running_out: set[NamespacedName] = set()

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Evict one pod when its time on a tainted node is over."""
        entry = ctx.store(builtin.POD).get(key)
        pod = None if entry is None or not self._is_concerned(ctx, entry) else entry.object()
        wait = None if pod is None else _remaining(ctx, pod)
        if pod is None or wait is None:
            if key in self._running_out:
                self._running_out.discard(key)
                note = f"Cancelling deletion of Pod {key}"
                ctx.recorder.event(_reference(key), "Normal", _REASON, note)
            return None
        if wait > timedelta():
            self._running_out.add(key)
            return Result(after=wait)
        self._running_out.discard(key)
        await _evict(ctx, pod)
        return None

    def _is_concerned(self, ctx: Context, pod: Entry) -> bool:
        """Tell whether a pod's node may have a taint that drives it out: few nodes ever do."""
        name = self._views.of(pod)["spec"].get("nodeName")
        node = ctx.store(builtin.NODE).get(NamespacedName("", name)) if name else None
        return node is not None and b"NoExecute" in node.raw


def _remaining(ctx: Context, pod: Object) -> timedelta | None:
    name = pod["spec"].get("nodeName")
    if not name or is_pod_terminating(pod) or is_pod_finished(pod):
        return None
    node = ctx.get(builtin.NODE, NamespacedName("", name))
    return None if node is None else plan_eviction(pod, node, ctx.clock.now())


def _reference(key: NamespacedName) -> Object:
    """Name a pod as events of evictions do: without its UID."""
    metadata = {"name": key.name, "namespace": key.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


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
    ctx.recorder.event(_reference(key), "Normal", _REASON, note)
    try:
        await ctx.patch(
            builtin.POD, key, build_condition_patch(pod, condition), subresource="status"
        )
        await ctx.delete(builtin.POD, key, uid=pod["metadata"]["uid"])
    except (NotFound, Conflict):
        return
