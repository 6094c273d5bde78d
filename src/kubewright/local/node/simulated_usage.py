"""What the containers of simulated pods pretend to use: the rates that tests tell. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.node.usage import Usage

CPU_ANNOTATION = "usage.kubewright.dev/cpu"
MEMORY_ANNOTATION = "usage.kubewright.dev/memory"
"""What each container of a pod uses, as quantities; without them what it requests."""

_LEAST_CPU, _LEAST_MEMORY = "1m", "10Mi"


class SimulatedMeter(msgspec.Struct):
    """Adds up processor time at a rate that may change between two looks."""

    since: datetime
    cpu_seconds: float = 0.0

    def read(self, pod: Object, container: str, now: datetime) -> Usage:
        """Return the usage until now."""
        cores, memory = read_rates(pod, container)
        self.cpu_seconds += cores * max((now - self.since).total_seconds(), 0.0)
        self.since = now
        return Usage(self.cpu_seconds, memory)


def read_rates(pod: Object, container: str) -> tuple[float, int]:
    """Return the processors and the bytes that a container of a pod is to use.

    An annotation that is no quantity is taken for none.
    """
    annotations = pod["metadata"].get("annotations") or {}
    requests: dict[str, str] = {}
    for spec in (*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ())):
        if spec["name"] == container:
            requests = (spec.get("resources") or {}).get("requests") or {}
    cpu = _quantity(annotations.get(CPU_ANNOTATION) or requests.get("cpu"), _LEAST_CPU)
    memory = _quantity(annotations.get(MEMORY_ANNOTATION) or requests.get("memory"), _LEAST_MEMORY)
    return float(cpu.value), memory.to_int()


def _quantity(text: str | None, default: str) -> Quantity:
    try:
        return Quantity(text or default)
    except ValueError:
        return Quantity(default)
