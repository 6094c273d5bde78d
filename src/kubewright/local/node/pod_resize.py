"""Giving the containers of a running pod other resources, in place (KEP-1287)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.resize_state import ResizeState
from kubewright.local.node.resources import build_resources
from kubewright.local.node.runtime import StartError

_logger = logging.getLogger(__name__)

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
DEFERRED, ERROR = "Deferred", "Error"
TERMINAL = ("Succeeded", "Failed")
_UNITS = {"cpu": 1000, "memory": 1}


def is_allocated(record: ContainerRecord) -> bool:
    """Tell whether a running container has been given what its specification asks for."""
    return not record.is_running or record.allocated == (record.spec.get("resources") or {})


def needs_restart(record: ContainerRecord) -> bool:
    """Tell whether the change of a container's resources is one that restarts it."""
    wanted, given = record.spec.get("resources") or {}, record.actual or {}
    policies = {
        entry["resourceName"]: entry["restartPolicy"]
        for entry in record.spec.get("resizePolicy") or ()
    }
    return any(
        policies.get(name) == "RestartContainer"
        for name in _UNITS
        for part in ("requests", "limits")
        if (wanted.get(part) or {}).get(name) != (given.get(part) or {}).get(name)
    )


def find_lack(pod: Object, others: Iterable[Object], allocatable: Mapping[str, str]) -> str:
    """Return what a node lacks for a pod beside its other pods; "" if it has room."""
    for name, unit in _UNITS.items():
        asked = _sum_requests(pod, name, unit)
        used = sum(_sum_requests(other, name, unit) for other in others)
        capacity = int(Quantity(allocatable.get(name) or "0").value * unit)
        if asked + used > capacity:
            return (
                f"Node didn't have enough resource: {name}, requested: {asked}, used: {used}, "
                f"capacity: {capacity}"
            )
    return ""


def _sum_requests(pod: Object, name: str, unit: int) -> int:
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return sum(
        int(
            Quantity(((c.get("resources") or {}).get("requests") or {}).get(name) or "0").value
            * unit
        )
        for c in [*spec["containers"], *sidecars]
    )


class PodResize:
    """Brings the resources of one pod's running containers to what its specification asks for."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self.state: ResizeState | None = None

    async def run(self, pod: Object, records: Sequence[ContainerRecord]) -> list[ContainerRecord]:
        """Do what is to be done; return the containers that must be restarted for it."""
        if all(is_allocated(record) for record in records):
            if self.state is not None and self.state.type == PENDING:
                self.state = None
            return [] if self.state is None else await self._give(pod, records)
        if problem := self._find_lack(pod):
            self._defer(pod, problem)
            return []
        for record in records:
            if record.is_running:
                record.allocated = record.spec.get("resources") or {}
        self.state = ResizeState(IN_PROGRESS)
        self._tell(pod, "Normal", "ResizeStarted", "Pod resize started")
        return await self._give(pod, records)

    def _find_lack(self, pod: Object) -> str:
        uid = pod["metadata"]["uid"]
        others = [
            other
            for other in self._context.pods()
            if other["metadata"]["uid"] != uid
            and (other.get("status") or {}).get("phase") not in TERMINAL
        ]
        allocatable = (self._context.node().get("status") or {}).get("allocatable") or {}
        return find_lack(pod, others, allocatable)

    def _defer(self, pod: Object, problem: str) -> None:
        state = ResizeState(PENDING, DEFERRED, problem)
        if state != self.state:
            self.state = state
            self._tell(pod, "Warning", "ResizeDeferred", f"Pod resize {DEFERRED}", problem)

    async def _give(self, pod: Object, records: Sequence[ContainerRecord]) -> list[ContainerRecord]:
        restarts = []
        for record in records:
            container = record.container
            if container is None or record.actual == record.allocated:
                continue
            if needs_restart(record):
                restarts.append(record)
                continue
            try:
                await self._context.runtime.limit(container, build_resources(pod, record.spec))
            except StartError as error:
                self._fail(pod, record, error.message)
                return restarts
            record.actual = record.allocated
        if not restarts:
            self.state = None
            self._tell(pod, "Normal", "ResizeCompleted", "Pod resize completed")
        return restarts

    def _fail(self, pod: Object, record: ContainerRecord, problem: str) -> None:
        state = ResizeState(IN_PROGRESS, ERROR, f"{record.name}: {problem}")
        if state != self.state:
            self.state = state
            _logger.warning("pod %s was not resized: %s", pod["metadata"]["name"], problem)
            self._tell(pod, "Warning", "ResizeError", "Pod resize error", problem)

    def _tell(self, pod: Object, type: str, reason: str, text: str, problem: str = "") -> None:
        note = f"{text}: {json.dumps(summarize(pod, problem), separators=(',', ':'))}"
        self._context.recorder.event(pod, "Normal" if type == "Normal" else "Warning", reason, note)


def summarize(pod: Object, problem: str = "") -> Object:
    """Summarize the resources of a pod, as the Events of a resize tell them."""
    summary: Object = {}
    for group in ("initContainers", "containers"):
        entries = [
            {"name": container["name"], "resources": container.get("resources") or {}}
            for container in pod["spec"].get(group) or ()
        ]
        if entries:
            summary[group] = entries
    summary["generation"] = pod["metadata"].get("generation") or 0
    if problem:
        summary["error"] = problem
    return summary
