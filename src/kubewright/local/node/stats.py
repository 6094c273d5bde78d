"""What a node tells of the usage of its pods: /metrics/resource and /stats/summary. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.local.node.usage import Usage

_SERIES = (
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    ),
    (
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
    ),
    (
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds",
    ),
    (
        "node_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
    ),
    ("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes"),
    (
        "pod_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
    ),
    ("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes"),
    (
        "resource_scrape_error",
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
    ),
)


class ContainerStats(msgspec.Struct, frozen=True):
    """The usage of a running container at a time of its own: measuring many takes a while.

    `cores` is its rate since the last look, if there was one.
    """

    name: str
    time: datetime
    started: datetime
    usage: Usage
    cores: float | None = None


class PodStats(msgspec.Struct, frozen=True):
    """The usage of a pod's running containers."""

    key: NamespacedName
    uid: str
    started: str
    containers: Sequence[ContainerStats]

    @property
    def usage(self) -> Usage:
        """The sum of the containers."""
        return _sum([container.usage for container in self.containers])


class NodeStats(msgspec.Struct, frozen=True):
    """The usage of a node at a time: of its pods, and of all together with the agent."""

    name: str
    time: datetime
    started: datetime
    usage: Usage
    pods: Sequence[PodStats]
    memory_capacity: int = 0


def _sum(usages: Sequence[Usage]) -> Usage:
    return Usage(sum(u.cpu_seconds for u in usages), sum(u.memory_bytes for u in usages))


def format_metrics(stats: NodeStats) -> str:
    """Write the metrics of /metrics/resource in Prometheus' text form, each with its time."""
    samples: dict[str, list[str]] = {name: [] for name, _, _ in _SERIES}

    def add(name: str, labels: str, value: float, time: datetime | None) -> None:
        moment = f" {int(time.timestamp() * 1000)}" if time else ""
        samples[name].append(f"{name}{labels} {value:.17g}{moment}")

    for pod in stats.pods:
        names = f'namespace="{pod.key.namespace}",pod="{pod.key.name}"'
        for container in pod.containers:
            labels = f'{{container="{container.name}",{names}}}'
            usage = container.usage
            add("container_cpu_usage_seconds_total", labels, usage.cpu_seconds, container.time)
            add("container_memory_working_set_bytes", labels, usage.memory_bytes, container.time)
            started = container.started.timestamp()
            add("container_start_time_seconds", labels, started, None)
        add("pod_cpu_usage_seconds_total", f"{{{names}}}", pod.usage.cpu_seconds, stats.time)
        add("pod_memory_working_set_bytes", f"{{{names}}}", pod.usage.memory_bytes, stats.time)
    add("node_cpu_usage_seconds_total", "", stats.usage.cpu_seconds, stats.time)
    add("node_memory_working_set_bytes", "", stats.usage.memory_bytes, stats.time)
    add("resource_scrape_error", "", 0, None)
    return "\n".join(_lines(samples)) + "\n"


def _lines(samples: dict[str, list[str]]) -> Iterator[str]:
    for name, kind, text in _SERIES:
        if samples[name]:
            yield f"# HELP {name} [STABLE] {text}"
            yield f"# TYPE {name} {kind}"
            yield from samples[name]


def build_summary(stats: NodeStats) -> Object:
    """Build the answer of /stats/summary (stats/v1alpha1), as far as it is measured."""
    moment = format_time(stats.time)
    free = max(stats.memory_capacity - stats.usage.memory_bytes, 0)
    node: Object = {
        "nodeName": stats.name,
        "startTime": format_time(stats.started),
        "cpu": _build_cpu(stats.usage, None, moment),
        "memory": {**_build_memory(stats.usage, moment), "availableBytes": free},
    }
    return {"node": node, "pods": [_build_pod(pod, moment) for pod in stats.pods]}


def _build_pod(pod: PodStats, moment: str) -> Object:
    rates = [container.cores for container in pod.containers]
    cores = None if None in rates else sum(rate or 0.0 for rate in rates)
    return {
        "podRef": {"name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.uid},
        "startTime": pod.started,
        "containers": [
            {
                "name": container.name,
                "startTime": format_time(container.started),
                "cpu": _build_cpu(container.usage, container.cores, format_time(container.time)),
                "memory": _build_memory(container.usage, format_time(container.time)),
            }
            for container in pod.containers
        ],
        "cpu": _build_cpu(pod.usage, cores, moment),
        "memory": _build_memory(pod.usage, moment),
    }


def _build_cpu(usage: Usage, cores: float | None, moment: str) -> Object:
    cpu: Object = {
        "time": moment,
        "usageCoreNanoSeconds": int(usage.cpu_seconds * 1_000_000_000),
    }
    if cores is not None:
        cpu["usageNanoCores"] = int(cores * 1_000_000_000)
    return cpu


def _build_memory(usage: Usage, moment: str) -> Object:
    return {
        "time": moment,
        "usageBytes": usage.memory_bytes,
        "workingSetBytes": usage.memory_bytes,
    }
