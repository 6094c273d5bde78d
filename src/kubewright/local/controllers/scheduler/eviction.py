"""Preemption carried out: a victim is told why it goes, then deleted."""

from __future__ import annotations

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.pod import build_condition_patch
from kubewright.local.controllers.scheduler.outcome import build_preempted
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.runtime.context import Context


async def evict(ctx: Context, pod: Object, victim: PodInfo, node: str) -> None:
    """Delete a victim to make room for a pod on a node; one that is gone is let be.

    Raises:
        Conflict: the victim changed since it was read; it is looked at again.
    """
    live = ctx.get(builtin.POD, victim.key)
    if live is None or live["metadata"]["uid"] != victim.uid:
        return
    condition = build_preempted(live, format_time(ctx.clock.now()))
    try:
        await ctx.patch(
            builtin.POD, victim.key, build_condition_patch(live, condition), subresource="status"
        )
        await ctx.delete(builtin.POD, victim.key, uid=victim.uid)
    except NotFound:
        return
    note = f"Preempted by pod {pod['metadata']['uid']} on node {node}"
    ctx.recorder.event(live, "Normal", "Preempted", note, action="Preempting", related=pod)
