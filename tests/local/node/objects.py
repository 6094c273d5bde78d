"""Objects for the tests of the node."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord as Record
from kubewright.local.node.containers import Role, Running, State, Terminated, build_records

NOW = datetime(2026, 11, 28, 1, 0, tzinfo=UTC)
NOW_TEXT = "2026-11-28T01:00:00Z"


def build_pod(name: str = "p", *, metadata: Object | None = None, **spec: Any) -> Object:
    """Build a pod; without containers it gets one named c."""
    spec.setdefault("containers", [{"name": "c", "image": "busybox:1.35"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": "u1", **(metadata or {})},
        "spec": spec,
    }


def records_of(pod: Object, **states: State) -> list[Record]:
    """Build the records of a pod with some containers in a given state."""
    records = build_records(pod)
    for record in records:
        record.state = states.get(record.name, record.state)
        ended_well = isinstance(record.state, Terminated) and record.state.exit_code == 0
        is_sidecar = record.role is Role.SIDECAR and isinstance(record.state, Running)
        record.passed = is_sidecar or (record.role is Role.INIT and ended_well)
    return records


RUNNING = Running(NOW)


def ended(code: int) -> Terminated:
    """Build the state of a container that ended with a status."""
    return Terminated(code, "Error" if code else "Completed", started_at=NOW, finished_at=NOW)
