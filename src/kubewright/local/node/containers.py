"""What the agent knows of each container of a pod."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from kubewright.api.resource import Object
from kubewright.api.time import format_time, parse_time
from kubewright.local.node.backoff import Backoff
from kubewright.local.node.image.image import Image
from kubewright.local.node.runtime import Exit, RunningContainer


class Role(enum.Enum):
    """The part that a container plays in the life of its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    """An init container with restartPolicy Always (KEP-753)."""
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """A container that was added to a running pod to look into it (`kubectl debug`)."""


class Waiting(msgspec.Struct, frozen=True):
    """A container that does not run yet, or not again."""

    reason: str
    message: str = ""

    def to_object(self) -> Object:
        """Return the state as the API has it."""
        entry = {"reason": self.reason} | ({"message": self.message} if self.message else {})
        return {"waiting": entry}


class Running(msgspec.Struct, frozen=True):
    """A container that runs."""

    started_at: datetime

    def to_object(self) -> Object:
        """Return the state as the API has it."""
        return {"running": {"startedAt": format_time(self.started_at)}}


class Terminated(msgspec.Struct, frozen=True):
    """A container that has ended."""

    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""

    def to_object(self) -> Object:
        """Return the state as the API has it."""
        entry: Object = {"exitCode": self.exit_code, "reason": self.reason}
        if self.message:
            entry["message"] = self.message
        entry["startedAt"] = format_time(self.started_at) if self.started_at else None
        entry["finishedAt"] = format_time(self.finished_at) if self.finished_at else None
        if self.container_id:
            entry["containerID"] = self.container_id
        return {"terminated": entry}

    @classmethod
    def from_object(cls, entry: Object) -> Terminated:
        """Read the state from the API."""
        started, finished = entry.get("startedAt"), entry.get("finishedAt")
        return cls(
            exit_code=entry.get("exitCode") or 0,
            reason=entry.get("reason") or "",
            message=entry.get("message") or "",
            started_at=parse_time(started) if started else None,
            finished_at=parse_time(finished) if finished else None,
            container_id=entry.get("containerID") or "",
        )


State = Waiting | Running | Terminated


class ContainerRecord(msgspec.Struct):
    """One container of a pod: its specification and what has become of it.

    `work` is a start or a stop that is underway. `passed` says that an init container has done its
    part: it ended well, or as a sidecar has once started. `ready` and `started` are the verdicts of
    the probes, None where there is no such probe. `failure` is why the last start went wrong, when
    that says more than how the container ended. `is_reset` says that its next run is counted
    already. `allocated` are the resources that the node has set aside for it, `actual` those that
    it is held to; None before its first start.
    """

    spec: Object
    role: Role
    state: State
    last: Terminated | None = None
    restarts: int = 0
    image: Image | None = None
    container_id: str = ""
    container: RunningContainer | None = None
    work: asyncio.Task[None] | None = None
    watcher: asyncio.Task[None] | None = None
    starting_since: float | None = None
    stopping: bool = False
    passed: bool = False
    ready: bool | None = None
    started: bool | None = None
    restart: Backoff = msgspec.field(default_factory=Backoff)
    pull: Backoff = msgspec.field(default_factory=Backoff)
    retry_at: float = 0.0
    kill_reason: str = ""
    failure: Waiting | None = None
    is_reset: bool = False
    allocated: Object | None = None
    actual: Object | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.spec["name"])

    @property
    def is_running(self) -> bool:
        """Tell whether the container runs."""
        return isinstance(self.state, Running)

    @property
    def is_started(self) -> bool:
        """Tell whether the container runs and its startup probe has succeeded."""
        return self.is_running and self.started is not False

    @property
    def is_ready(self) -> bool:
        """Tell whether the container counts as ready."""
        if self.role is Role.EPHEMERAL:
            return False
        if self.role is Role.INIT:
            return isinstance(self.state, Terminated) and self.state.exit_code == 0
        return self.is_started and self.ready is not False

    @property
    def field_path(self) -> str:
        """The path that Events about this container name."""
        return f"spec.{GROUPS[self.role]}{{{self.name}}}"

    @property
    def attempt(self) -> int:
        """The number of its next run, from 0; it names the log."""
        return self.restarts + (1 if self.ended is not None and not self.is_reset else 0)

    @property
    def ended(self) -> Terminated | None:
        """The last run that ended, also while the next one waits."""
        return self.state if isinstance(self.state, Terminated) else self.last


GROUPS = {
    Role.INIT: "initContainers",
    Role.SIDECAR: "initContainers",
    Role.MAIN: "containers",
    Role.EPHEMERAL: "ephemeralContainers",
}
STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def build_records(
    pod: Object, held: Sequence[RunningContainer] | None = None
) -> list[ContainerRecord]:
    """Build the records of a pod's containers in the order in which they start.

    What the pod's status tells of earlier runs is taken over: restarts go on counting after the
    node was restarted. `held` are the containers of a sandbox that an earlier agent has left; what
    was running and is not among them has been lost (ContainerStatusUnknown). Without such a sandbox
    the pod starts from its beginning.
    """
    status = pod.get("status") or {}
    known = {entry["name"]: entry for group in STATUSES for entry in status.get(group) or ()}
    first = _first_state(pod)
    records = []
    for spec, role in pod_containers(pod):
        told = known.get(spec["name"]) or {}
        record = _restore(spec, role, told, first)
        _adopt(record, told, [c for c in held or () if c.config.name == record.name])
        records.append(record)
    mains = [record for record in records if record.role is Role.MAIN]
    had_begun = any(record.ended or record.is_running for record in mains)
    is_kept = held is not None or pod["spec"].get("restartPolicy") == "Never"
    for record in records:
        if record.role not in (Role.INIT, Role.SIDECAR):
            continue
        if had_begun and is_kept:
            record.passed = True
        elif isinstance(record.state, Terminated) and record.state.exit_code == 0:
            if held is not None:
                record.passed = record.role is Role.INIT
            else:
                # A new sandbox runs its init containers again.
                record.state = first
        elif record.role is Role.SIDECAR and record.is_started:
            record.passed = True
    return records


def _adopt(record: ContainerRecord, told: Object, held: Sequence[RunningContainer]) -> None:
    """Take over the last run of a container, unless the API knows already how it ended.

    One that was ready stays so until a probe says otherwise, as at the kubelet.
    """
    if not held:
        return
    *earlier, container = held
    name = f"kubewright://{container.id}"
    ends = [told.get("state") or {}, told.get("lastState") or {}]
    if name in ((end.get("terminated") or {}).get("containerID") for end in ends):
        return
    if earlier and earlier[-1].exited.done():
        record.last = describe_end(earlier[-1], earlier[-1].exited.result())
    elif isinstance(record.state, Terminated) and record.state.container_id not in ("", name):
        record.last = record.state
    record.container, record.container_id = container, name
    record.image, record.restarts = container.config.image, container.config.attempt
    record.state = Running(container.started_at)
    record.allocated = record.actual = told.get("resources") or spec_resources(record)
    is_told = told.get("containerID") == name
    if "startupProbe" in record.spec:
        record.started = is_told and bool(told.get("started"))
    if "readinessProbe" in record.spec:
        record.ready = is_told and bool(told.get("ready"))


def spec_resources(record: ContainerRecord) -> Object:
    """Return the resources that the specification of a container asks for."""
    resources: Object = record.spec.get("resources") or {}
    return resources


def describe_end(container: RunningContainer, ended: Exit, message: str = "") -> Terminated:
    """Describe how a run of a container ended; to be killed for memory goes before all reasons."""
    reason = "OOMKilled" if ended.is_oom else "Error" if ended.exit_code else "Completed"
    return Terminated(
        exit_code=ended.exit_code,
        reason=reason,
        message=message,
        started_at=container.started_at,
        finished_at=ended.finished_at,
        container_id=f"kubewright://{container.id}",
    )


def pod_containers(pod: Object) -> Iterator[tuple[Object, Role]]:
    """Yield a pod's containers in the order in which they start, with their roles."""
    spec = pod["spec"]
    for container in spec.get("initContainers") or ():
        is_sidecar = container.get("restartPolicy") == "Always"
        yield container, Role.SIDECAR if is_sidecar else Role.INIT
    for container in spec["containers"]:
        yield container, Role.MAIN
    for container in spec.get("ephemeralContainers") or ():
        yield container, Role.EPHEMERAL


def is_finite(pod: Object, role: Role) -> bool:
    """Tell whether a container is meant to end by itself."""
    if role is Role.MAIN:
        return (pod["spec"].get("restartPolicy") or "Always") != "Always"
    return role is Role.INIT


def add_records(pod: Object, records: list[ContainerRecord]) -> None:
    """Add records of the ephemeral containers that a pod was given meanwhile."""
    known = {record.name for record in records}
    for spec, role in pod_containers(pod):
        if role is Role.EPHEMERAL and spec["name"] not in known:
            records.append(ContainerRecord(spec, role, _first_state(pod)))


def _first_state(pod: Object) -> Waiting:
    has_init = bool(pod["spec"].get("initContainers"))
    return Waiting("PodInitializing" if has_init else "ContainerCreating")


def _restore(spec: Object, role: Role, status: Object, first: Waiting) -> ContainerRecord:
    record = ContainerRecord(spec, role, first, restarts=status.get("restartCount") or 0)
    record.container_id = status.get("containerID") or ""
    last = (status.get("lastState") or {}).get("terminated")
    record.last = Terminated.from_object(last) if last else None
    state = status.get("state") or {}
    if ended := state.get("terminated"):
        record.state = Terminated.from_object(ended)
    elif running := state.get("running"):
        started = running.get("startedAt")
        record.state = Terminated(
            exit_code=137,
            reason="ContainerStatusUnknown",
            message="The container could not be located when the pod was terminated",
            started_at=parse_time(started) if started else None,
            container_id=record.container_id,
        )
    elif record.last is not None:
        record.state, record.last = record.last, None
    return record


def reset_records(records: list[ContainerRecord]) -> None:
    """Let all containers of a pod start from its beginning (KEP-5532)."""
    message = "The container is removed because RestartAllContainers in place"
    for record in records:
        if record.role is Role.EPHEMERAL:
            continue
        if record.ended is not None:
            record.last = Terminated(137, "RestartingAllContainers", message)
            record.state = Waiting("RestartingAllContainers", message)
            record.restarts += 1
            record.is_reset = True
        record.passed = False
        record.retry_at = 0.0
        record.kill_reason = ""
