"""The row of a Pod in a Table: what `kubectl get pods` shows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.table import (
    AGE,
    NONE,
    column,
    format_age,
    format_since,
)

POD_COLUMNS = (
    column("Ready"),
    column("Status"),
    column("Restarts"),
    AGE,
    column("IP", wide=True),
    column("Node", wide=True),
    column("Nominated Node", wide=True),
    column("Readiness Gates", wide=True),
)
_FINAL = ("Succeeded", "Failed")


class _Row(msgspec.Struct):
    """What the statuses of the containers add up to."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count(self, status: Object) -> None:
        """Add the restarts of a container."""
        self.restarts += status.get("restartCount") or 0
        ended = (status.get("lastState") or {}).get("terminated") or {}
        self.last_restart = max(self.last_restart, ended.get("finishedAt") or "")


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    """Return the cells of a pod after its name."""
    spec, status = pod["spec"], pod.get("status") or {}
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if _is_sidecar(c)}
    total = len(spec.get("containers") or ()) + len(sidecars)
    row = _Row(_first_reason(status))
    waits = _add_init_containers(row, pod, sidecars)
    if not waits or _condition(status, "Initialized") == "True":
        _add_containers(row, status, sidecars)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            row.reason = "Unknown"
        elif status.get("phase") not in _FINAL:
            row.reason = "Terminating"
    restarts = str(row.restarts)
    if row.restarts and row.last_restart:
        restarts = f"{row.restarts} ({format_since(row.last_restart, now)} ago)"
    ips = status.get("podIPs") or [{}]
    return [
        f"{row.ready}/{total}",
        row.reason,
        restarts,
        format_age(pod, now),
        ips[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def _is_sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _condition(status: Object, kind: str) -> str:
    conditions = status.get("conditions") or ()
    return next((c.get("status", "") for c in conditions if c.get("type") == kind), "")


def _first_reason(status: Object) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return status.get("reason") or status.get("phase") or ""


def _add_init_containers(row: _Row, pod: Object, sidecars: set[str | None]) -> bool:
    """Add the init containers up to the first that is not done; tell whether there is one."""
    total = len(pod["spec"].get("initContainers") or ())
    for index, item in enumerate((pod.get("status") or {}).get("initContainerStatuses") or ()):
        row.count(item)
        state = item.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and not ended.get("exitCode"):
            continue
        if item.get("name") in sidecars and item.get("started"):
            row.ready += bool(item.get("ready"))
            continue
        if ended is not None:
            row.reason = f"Init:{_end_reason(ended)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            row.reason = f"Init:{waiting['reason']}"
        else:
            row.reason = f"Init:{index}/{total}"
        return True
    return False


def _end_reason(ended: Object) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    if signal := ended.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{ended.get('exitCode') or 0}"


def _add_containers(row: _Row, status: Object, sidecars: set[str | None]) -> None:
    row.restarts, row.last_restart = 0, ""
    for item in status.get("initContainerStatuses") or ():
        if item.get("name") in sidecars:
            row.count(item)
    is_running, error = False, ""
    for item in reversed(status.get("containerStatuses") or ()):
        row.count(item)
        state = item.get("state") or {}
        ended = state.get("terminated")
        if reason := (state.get("waiting") or {}).get("reason"):
            row.reason = reason
        elif ended is not None:
            row.reason = _end_reason(ended)
            error = row.reason if ended.get("exitCode") else error
        elif item.get("ready") and "running" in state:
            is_running = True
            row.ready += 1
    if row.reason == "Completed":
        if is_running and _condition(status, "Ready") == "True":
            row.reason = "Running"
        elif error:
            row.reason = error
        elif is_running:
            row.reason = "NotReady"


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    met = sum(_condition(status, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{met}/{len(gates)}"
