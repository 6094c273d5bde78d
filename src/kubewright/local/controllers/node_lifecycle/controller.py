"""The node lifecycle controller: taints by conditions, and conditions of nodes that fell silent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.node_lifecycle.heartbeat import (
    Heartbeats,
    build_silent_conditions,
    patience,
)
from kubewright.local.controllers.node_lifecycle.labels import missing_labels
from kubewright.local.controllers.node_lifecycle.pods_of_nodes import PodsOfNodes
from kubewright.local.controllers.node_lifecycle.taints import plan_taints
from kubewright.local.controllers.pod import build_condition_patch, ready_condition
from kubewright.local.controllers.pod_views import PodViews
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "node-lifecycle-controller"
LEASE_NAMESPACE = "kube-node-lease"

_NEXT_LOOK = timedelta(seconds=5)


def build_node_lifecycle_controller(recorder: EventRecorder, views: PodViews) -> Controller:
    """Build the controller that taints nodes by their conditions."""
    reconciler = _Reconciler(PodsOfNodes("kubewright/lifecycle/node", views))
    return Controller(
        NAME,
        builtin.NODE,
        with_recorder(reconciler.reconcile, recorder),
        watches=[Watch(builtin.LEASE, _node_of_lease)],
        reads=[builtin.POD],
        setup=reconciler.set_up,
    )


def _node_of_lease(lease: Entry) -> Iterable[NamespacedName]:
    if lease.meta.namespace != LEASE_NAMESPACE:
        return ()
    return (NamespacedName("", lease.meta.name),)


class _Reconciler:
    """Remembers heartbeats, so that silence can be measured, and which nodes it told of."""

    def __init__(self, pods: PodsOfNodes) -> None:
        self._heartbeats = Heartbeats()
        self._pods = pods
        self._known: dict[str, Object] = {}

    def set_up(self, cache: Cache) -> None:
        self._pods.set_up(cache)

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        node = ctx.get(builtin.NODE, key)
        self._tell_of_node(key.name, node, ctx)
        if node is None:
            alive = {entry.meta.uid for entry in ctx.store(builtin.NODE).list()}
            self._heartbeats.forget(alive)
            return None
        lease = ctx.get(builtin.LEASE, NamespacedName(LEASE_NAMESPACE, key.name))
        silence = self._heartbeats.silence(node, lease, ctx.clock.monotonic())
        left = patience(node) - silence
        if left.total_seconds() <= 0 and not await _is_lease_stale(ctx, key.name, lease):
            # It is the store that is behind: its next news brings the next look.
            return Result(after=_NEXT_LOOK)
        if left.total_seconds() <= 0:
            node = await _report_silence(ctx, node)
            await self._report_pods(ctx, key.name)
        await _write_node(ctx, node)
        return Result(after=left) if left.total_seconds() > 0 else None

    def _tell_of_node(self, name: str, node: Object | None, ctx: Context) -> None:
        """Tell once that a node came, or that one of those told of is gone."""
        known = self._known.get(name)
        if known is not None and (node is None or not _is_same(known, node)):
            note = f"Node {name} event: Removing Node {name} from Controller"
            ctx.recorder.event(self._known.pop(name), "Normal", "RemovingNode", note)
            known = None
        if node is not None and known is None:
            metadata = {key: node["metadata"][key] for key in ("name", "uid")}
            self._known[name] = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
            note = f"Node {name} event: Registered Node {name} in Controller"
            ctx.recorder.event(self._known[name], "Normal", "RegisteredNode", note)

    async def _report_pods(self, ctx: Context, node: str) -> None:
        """Say of the pods of a silent node that they are not ready: nobody else will."""
        for entry in self._pods.on(node):
            condition = ready_condition(self._pods.views.of(entry))
            if condition is None or condition.get("status") != "True":
                continue
            pod = entry.object()
            now = format_time(ctx.clock.now())
            failed = {**condition, "status": "False", "lastTransitionTime": now}
            try:
                await ctx.patch(
                    builtin.POD,
                    entry.key,
                    build_condition_patch(pod, failed),
                    subresource="status",
                )
            except NotFound:
                continue
            ctx.recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")


async def _is_lease_stale(ctx: Context, node: str, seen: Object | None) -> bool:
    """Tell whether the server has no newer lease than was seen: a watch may lag under load."""
    try:
        live = await ctx.client.get(builtin.LEASE, node, namespace=LEASE_NAMESPACE)
    except NotFound:
        return True
    return seen is not None and live["spec"].get("renewTime") == seen["spec"].get("renewTime")


def _is_same(one: Object, other: Object) -> bool:
    return bool(one["metadata"]["uid"] == other["metadata"]["uid"])


async def _report_silence(ctx: Context, node: Object) -> Object:
    status = node.get("status") or {}
    ready = find_condition(status.get("conditions") or (), "Ready")
    if ready is not None and ready["status"] == "Unknown":
        return node
    conditions = build_silent_conditions(node, format_time(ctx.clock.now()))
    written = await ctx.replace(
        {**node, "status": {**status, "conditions": conditions}}, subresource="status"
    )
    if ready is not None and ready["status"] == "True":
        note = f"Node {node['metadata']['name']} status is now: NodeNotReady"
        ctx.recorder.event(node, "Normal", "NodeNotReady", note)
    return written


async def _write_node(ctx: Context, node: Object) -> None:
    """Write taints and labels, and only when they differ."""
    spec = node.get("spec") or {}
    taints = plan_taints(node, format_time(ctx.clock.now()))
    labels = missing_labels(node)
    if taints == (spec.get("taints") or []) and not labels:
        return
    patch: Object = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}}
    if taints != (spec.get("taints") or []):
        patch["spec"] = {"taints": taints or None}
    if labels:
        patch["metadata"]["labels"] = labels
    await ctx.patch(builtin.NODE, NamespacedName.of(node), patch)
