"""The endpoint's usage of pods (the kubelet's /metrics/resource and /stats/summary)."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec
from aiohttp import web

from kubewright.api.resource import NamespacedName, Object
from kubewright.client.clock import Clock
from kubewright.local.node.runtime import PodRuntime, RunningContainer
from kubewright.local.node.stats import (
    ContainerStats,
    NodeStats,
    PodStats,
    build_summary,
    format_metrics,
)
from kubewright.local.node.usage import Usage

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class RunningPod(msgspec.Struct, frozen=True):
    """A pod of the node with its containers that run."""

    pod: Object
    containers: Sequence[RunningContainer]


class UsageSource(Protocol):
    """What the statistics ask of the node."""

    name: str

    @property
    def runtime(self) -> PodRuntime:
        """What runs the containers."""
        ...

    def running_pods(self) -> list[RunningPod]:
        """Return the pods that have containers running."""
        ...


class StatsServer:
    """Measures and tells the usage of a node; `add_to` puts it into the node's endpoint.

    Counters never fall: what ended containers have used stays in the node's sum.
    """

    def __init__(self, node: UsageSource, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._started = clock.now()
        self._last: dict[str, tuple[datetime, Usage]] = {}
        self._ended_seconds = 0.0

    def add_to(self, application: web.Application) -> None:
        """Add the paths."""
        application.router.add_get("/metrics/resource", self._metrics)
        application.router.add_get("/stats/summary", self._summary)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        text = format_metrics(await self.measure())
        return web.Response(body=text.encode(), headers={"Content-Type": _PROMETHEUS})

    async def _summary(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.encode(build_summary(await self.measure()))
        return web.Response(body=body, content_type="application/json")

    async def measure(self) -> NodeStats:
        """Measure all containers that run."""
        pods = [await self._measure_pod(running) for running in self._node.running_pods()]
        own = resource.getrusage(resource.RUSAGE_SELF)
        usage = Usage(
            own.ru_utime + own.ru_stime + self._count_containers(),
            # Kilobytes, and the most there was: the agent hardly changes.
            own.ru_maxrss * 1024 + sum(pod.usage.memory_bytes for pod in pods),
        )
        now = self._clock.now()
        capacity = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return NodeStats(self._node.name, now, self._started, usage, pods, capacity)

    def _count_containers(self) -> float:
        alive = {c.id for running in self._node.running_pods() for c in running.containers}
        for container_id in self._last.keys() - alive:
            self._ended_seconds += self._last.pop(container_id)[1].cpu_seconds
        return self._ended_seconds + sum(usage.cpu_seconds for _, usage in self._last.values())

    async def _measure_pod(self, running: RunningPod) -> PodStats:
        found = []
        for container in running.containers:
            usage = await self._node.runtime.measure(container, running.pod)
            if usage is not None:
                now = self._clock.now()
                cores = self._note(container.id, usage, now)
                name = container.config.name
                found.append(ContainerStats(name, now, container.started_at, usage, cores))
        pod = running.pod
        started = (pod.get("status") or {}).get("startTime") or pod["metadata"].get(
            "creationTimestamp"
        )
        return PodStats(NamespacedName.of(pod), pod["metadata"]["uid"], started or "", found)

    def _note(self, container_id: str, usage: Usage, now: datetime) -> float | None:
        """Remember a container's usage; return its rate since it was remembered before."""
        before = self._last.get(container_id)
        self._last[container_id] = (now, usage)
        if before is None:
            return None
        seconds = (now - before[0]).total_seconds()
        grown = usage.cpu_seconds - before[1].cpu_seconds
        return max(grown, 0.0) / seconds if seconds > 0 else None
