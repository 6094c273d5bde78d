"""The node lifecycle controller: taints by conditions, and conditions of nodes that fell silent."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.cache.entry import Entry
from kubewright.local.controllers.node_lifecycle.heartbeat import (
    GRACE_PERIOD,
    Heartbeats,
    build_silent_conditions,
)
from kubewright.local.controllers.node_lifecycle.taints import plan_taints
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "node-lifecycle-controller"
LEASE_NAMESPACE = "kube-node-lease"


def build_node_lifecycle_controller() -> Controller:
    """Build the controller that taints nodes by their conditions."""
    reconciler = _Reconciler()
    return Controller(
        NAME, builtin.NODE, reconciler.reconcile, watches=[Watch(builtin.LEASE, _node_of_lease)]
    )


def _node_of_lease(lease: Entry) -> Iterable[NamespacedName]:
    if lease.meta.namespace != LEASE_NAMESPACE:
        return ()
    return (NamespacedName("", lease.meta.name),)


class _Reconciler:
    """Remembers heartbeats, so that silence can be measured."""

    def __init__(self) -> None:
        self._heartbeats = Heartbeats()

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        node = ctx.get(builtin.NODE, key)
        if node is None:
            alive = {entry.meta.uid for entry in ctx.store(builtin.NODE).list()}
            self._heartbeats.forget(alive)
            return None
        lease = ctx.get(builtin.LEASE, NamespacedName(LEASE_NAMESPACE, key.name))
        silence = self._heartbeats.silence(node, lease, ctx.clock.monotonic())
        if silence >= GRACE_PERIOD:
            node = await _report_silence(ctx, node)
        await _write_taints(ctx, node)
        return Result(after=GRACE_PERIOD - silence) if silence < GRACE_PERIOD else None


async def _report_silence(ctx: Context, node: Object) -> Object:
    status = node.get("status") or {}
    ready = find_condition(status.get("conditions") or (), "Ready")
    if ready is not None and ready["status"] == "Unknown":
        return node
    conditions = build_silent_conditions(node, format_time(ctx.clock.now()))
    return await ctx.replace(
        {**node, "status": {**status, "conditions": conditions}}, subresource="status"
    )


async def _write_taints(ctx: Context, node: Object) -> None:
    spec = node.get("spec") or {}
    taints = plan_taints(node, format_time(ctx.clock.now()))
    if taints == (spec.get("taints") or []):
        return
    patch: Object = {
        "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
        "spec": {"taints": taints or None},
    }
    await ctx.patch(builtin.NODE, NamespacedName.of(node), patch)
