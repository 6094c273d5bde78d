"""The pod garbage collector: pods of gone nodes, pods nobody ends, too many finished ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time, parse_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.local.controllers.node_lifecycle.pods_of_nodes import PodsOfNodes
from kubewright.local.controllers.pod import is_pod_finished
from kubewright.local.controllers.pod_gc.decision import (
    FINISHED_THRESHOLD,
    Verdict,
    build_failure,
    judge_pod,
    surplus,
)
from kubewright.local.controllers.pod_views import PodViews
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "pod-garbage-collector-controller"

_FINISHED = "kubewright/collector/finished"


def build_pod_collector(views: PodViews, *, threshold: int = FINISHED_THRESHOLD) -> Controller:
    """Build the controller that force-deletes pods that nobody will end any more.

    A node is asked for at the server before its pods go: what a cache does not show may exist.
    """
    collector = _Collector(views, threshold)
    return Controller(
        NAME,
        builtin.POD,
        collector.reconcile,
        watches=[Watch(builtin.NODE, collector.pods.keys_on)],
        setup=collector.set_up,
    )


class _Collector:
    """Remembers since when nodes are missing; after a restart they get their time again."""

    def __init__(self, views: PodViews, threshold: int) -> None:
        self.pods = PodsOfNodes("kubewright/collector/node", views)
        self._threshold = threshold
        self._missing: dict[str, float] = {}

    def set_up(self, cache: Cache) -> None:
        self.pods.set_up(cache)
        self._store = cache.store(builtin.POD)
        self._store.add_index(_FINISHED, self._finished)

    def _finished(self, entry: Entry) -> Iterable[str]:
        return ("",) if is_pod_finished(self.pods.views.of(entry)) else ()

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Collect one pod, or the oldest finished ones when it is one too many."""
        entry = self._store.get(key)
        if entry is None:
            return None
        # Most looks find nothing to do: a part of the pod tells that.
        view = self.pods.views.of(entry)
        verdict = self._judge(ctx, view)
        if verdict is None:
            if is_pod_finished(view):
                await self._collect_surplus(ctx)
            return None
        if verdict.after > timedelta():
            return Result(after=verdict.after)
        pod = entry.object()
        name = pod["spec"].get("nodeName")
        if verdict.reason and await _exists(ctx, name):
            self._missing.pop(name, None)
            return None
        await _collect(ctx, pod, verdict)
        return None

    def _judge(self, ctx: Context, pod: Object) -> Verdict | None:
        name = pod["spec"].get("nodeName") or ""
        node = ctx.get(builtin.NODE, NamespacedName("", name)) if name else None
        now = ctx.clock.monotonic()
        gone_for = 0.0
        if node is not None:
            self._missing.pop(name, None)
        elif name:
            gone_for = now - self._missing.setdefault(name, now)
        deleted = pod["metadata"].get("deletionTimestamp")
        deleted_for = ctx.clock.now() - parse_time(deleted) if deleted else timedelta()
        return judge_pod(pod, node, timedelta(seconds=gone_for), deleted_for)

    async def _collect_surplus(self, ctx: Context) -> None:
        finished = self._store.by_index(_FINISHED, "")
        if len(finished) <= self._threshold:
            return
        for pod in surplus((entry.object() for entry in finished), self._threshold):
            await _collect(ctx, pod, Verdict())


async def _exists(ctx: Context, node: str) -> bool:
    try:
        await ctx.client.get(builtin.NODE, node)
    except NotFound:
        return False
    return True


async def _collect(ctx: Context, pod: Object, verdict: Verdict) -> None:
    """Say that a pod failed, then delete it without waiting for anybody."""
    key = NamespacedName.of(pod)
    patch = build_failure(pod, verdict, format_time(ctx.clock.now()))
    try:
        if patch is not None:
            await ctx.patch(builtin.POD, key, patch, subresource="status")
        await ctx.delete(builtin.POD, key, uid=pod["metadata"]["uid"], grace_period_seconds=0)
    except NotFound:
        return
