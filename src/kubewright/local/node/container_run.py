"""One run of a container: start, probes, end; and stopping it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine, Mapping
from typing import Protocol

from kubewright.api.errors import KubewrightError
from kubewright.api.resource import NamespacedName, Object
from kubewright.local.node.container_starter import (
    MAX_TERMINATION_MESSAGE,
    ContainerStarter,
    HookFailed,
    named_ports,
)
from kubewright.local.node.containers import ContainerRecord, Role, Running, Terminated
from kubewright.local.node.logs import LogFollower
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.pod_plan import may_start
from kubewright.local.node.probes import ProbeKind, run_probe
from kubewright.local.node.runtime import (
    Exit,
    Outcome,
    ProbeResult,
    RunningContainer,
    Sandbox,
)
from kubewright.local.node.volumes import Volume

_logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
FALLBACK_BYTES = 2048
FALLBACK_LINES = 80


class Owner(Protocol):
    """The pod's worker, as a container's run sees it."""

    pod: Object
    uid: str
    key: NamespacedName

    def begin(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Begin a piece of work."""
        ...

    def wake(self) -> None:
        """Look again."""
        ...

    def back_off(self, record: ContainerRecord, ended: Terminated) -> None:
        """Delay a restart."""
        ...

    @property
    def is_ending(self) -> bool:
        """Tell whether the pod is to end."""
        ...


class ContainerRun:
    """Starts and stops the containers of a pod, and keeps their records true while they run."""

    def __init__(self, context: NodeContext, owner: Owner) -> None:
        self._context = context
        self._owner = owner
        self._starter = ContainerStarter(context, owner.uid)

    async def start(
        self, record: ContainerRecord, sandbox: Sandbox, volumes: Mapping[str, Volume]
    ) -> None:
        """Start a container and watch over it; the record says what came of it."""
        try:
            await self._start(record, sandbox, volumes)
        except (KubewrightError, OSError) as error:
            _logger.warning("container %s of pod %s: %s", record.name, self._owner.key, error)
            record.retry_at = self._context.clock.monotonic() + RETRY_SECONDS
        finally:
            record.work = None
            record.starting_since = None
            self._owner.wake()

    async def _start(
        self, record: ContainerRecord, sandbox: Sandbox, volumes: Mapping[str, Volume]
    ) -> None:
        pod, before = self._owner.pod, record.ended
        container = await self._starter.start(pod, record, sandbox, volumes)
        if container is None:
            if isinstance(record.state, Terminated) and record.state is not before:
                self._count_restart(record, before)
                self._end(record, record.state)
            return
        self._count_restart(record, before)
        record.container = container
        record.container_id = f"kubewright://{container.id}"
        record.kill_reason = ""
        event = self._context.recorder.container_event
        event(pod, record, "Normal", "Started", "Container started")
        record.watcher = self._owner.begin(
            self._watch(record, container, sandbox), f"watch {record.name}"
        )
        hook = (record.spec.get("lifecycle") or {}).get("postStart")
        failed = hook is not None and not await self._run_post_start(
            record, container, sandbox, hook
        )
        if container.exited.done():
            await asyncio.wait([record.watcher])
            return
        record.ready = False if "readinessProbe" in record.spec else None
        record.started = False if "startupProbe" in record.spec else None
        record.state = Running(container.started_at)
        if failed:
            record.kill_reason = "FailedPostStartHook"
            await self._stop(record, sandbox, self._grace())
            return
        self._note_started(record)

    def _count_restart(self, record: ContainerRecord, before: Terminated | None) -> None:
        if before is not None:
            record.last = before
            record.restarts += 1

    async def _run_post_start(
        self, record: ContainerRecord, container: RunningContainer, sandbox: Sandbox, hook: Object
    ) -> bool:
        try:
            await self._starter.run_hook(record, container, sandbox, hook)
        except HookFailed:
            self._context.recorder.container_event(
                self._owner.pod, record, "Warning", "FailedPostStartHook", "PostStartHook failed"
            )
            return False
        return True

    def _note_started(self, record: ContainerRecord) -> None:
        if record.role is Role.SIDECAR and record.started is not False:
            record.passed = True

    async def _watch(
        self, record: ContainerRecord, container: RunningContainer, sandbox: Sandbox
    ) -> None:
        """Run the probes of a container until it ends; then note how it ended."""
        probes = [
            self._owner.begin(
                self._probe(kind, record, container, sandbox), f"{kind.value} {record.name}"
            )
            for kind in ProbeKind
            if kind.field in record.spec
        ]
        ended = await asyncio.shield(container.exited)
        for probe in probes:
            probe.cancel()
        text = await asyncio.to_thread(self._read_message, record, container, ended.exit_code)
        record.container = None
        self._end(
            record,
            Terminated(
                exit_code=ended.exit_code,
                reason=end_reason(ended),
                message=text,
                started_at=container.started_at,
                finished_at=ended.finished_at,
                container_id=record.container_id,
            ),
        )
        self._owner.wake()

    def _end(self, record: ContainerRecord, ended: Terminated) -> None:
        record.state = ended
        record.ready = record.started = None
        if record.role is Role.INIT and ended.exit_code == 0:
            record.passed = True
            return
        wanted = record.role is Role.SIDECAR and not record.stopping
        if not self._owner.is_ending and (wanted or may_start(self._owner.pod, record)):
            self._owner.back_off(record, ended)

    def _read_message(
        self, record: ContainerRecord, container: RunningContainer, exit_code: int
    ) -> str:
        file = self._starter.termination_file(record)
        data = file.read_bytes()[:MAX_TERMINATION_MESSAGE] if file.exists() else b""
        fallback = record.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not data and fallback and exit_code:
            with contextlib.closing(LogFollower(container.config.log)) as follower:
                entries = list(follower.read_all())[-FALLBACK_LINES:]
            data = b"".join(entry.text for entry in entries)[-FALLBACK_BYTES:]
        return data.decode(errors="replace")

    async def _probe(
        self,
        kind: ProbeKind,
        record: ContainerRecord,
        container: RunningContainer,
        sandbox: Sandbox,
    ) -> None:
        probe, clock = record.spec[kind.field], self._context.clock
        ports = named_ports(record.spec)
        while not record.is_running or (kind is not ProbeKind.STARTUP and not record.is_started):
            await clock.sleep(0.05)

        async def ask() -> ProbeResult:
            return await self._context.runtime.probe(container, sandbox, probe, ports)

        def tell(verdict: bool | None, result: ProbeResult) -> bool:
            return self._take_result(kind, record, sandbox, verdict, result)

        await run_probe(probe, clock, ask, tell)

    def _take_result(
        self,
        kind: ProbeKind,
        record: ContainerRecord,
        sandbox: Sandbox,
        verdict: bool | None,
        result: ProbeResult,
    ) -> bool:
        """Note a result of a probe; return whether the probe goes on."""
        if not record.is_running:
            return False
        if result.outcome is not Outcome.SUCCESS:
            word = "failed" if result.outcome is Outcome.FAILURE else "errored"
            note = f"{kind.value} probe {word}: {result.output}"
            event = self._context.recorder.container_event
            event(self._owner.pod, record, "Warning", "Unhealthy", note)
        if verdict is None:
            return True
        if kind is ProbeKind.READINESS:
            if record.ready is not verdict:
                record.ready = verdict
                self._owner.wake()
            return True
        if verdict is False:
            self._kill_unhealthy(kind, record, sandbox)
            return False
        if kind is ProbeKind.STARTUP:
            record.started = True
            self._note_started(record)
            self._owner.wake()
            return False
        return True

    def _kill_unhealthy(self, kind: ProbeKind, record: ContainerRecord, sandbox: Sandbox) -> None:
        if record.work is not None or self._owner.is_ending:
            return
        if self._owner.pod["spec"].get("restartPolicy") != "Never" or record.role is Role.SIDECAR:
            probe = kind.value.lower()
            record.kill_reason = f"Container {record.name} failed {probe} probe, will be restarted"
        grace = record.spec[kind.field].get("terminationGracePeriodSeconds")
        work = self.stop(record, sandbox, self._grace() if grace is None else float(grace))
        record.work = self._owner.begin(work, f"stop {record.name}")

    def replace(self, record: ContainerRecord, sandbox: Sandbox | None) -> None:
        """Stop a container whose image was changed; it starts again as its restart policy says."""
        if record.container is None or record.work is not None or self._owner.is_ending:
            return
        record.kill_reason = f"Container {record.name} definition changed, will be restarted"
        record.work = self._owner.begin(
            self.stop(record, sandbox, self._grace()), f"stop {record.name}"
        )

    def _grace(self) -> float:
        return float(self._owner.pod["spec"].get("terminationGracePeriodSeconds", 30))

    async def stop(self, record: ContainerRecord, sandbox: Sandbox | None, grace: float) -> None:
        """Stop a container: preStop hook, SIGTERM, and SIGKILL after `grace` seconds in all."""
        try:
            await self._stop(record, sandbox, grace)
        finally:
            record.work = None
            record.stopping = False
            self._owner.wake()

    async def _stop(self, record: ContainerRecord, sandbox: Sandbox | None, grace: float) -> None:
        container, watcher = record.container, record.watcher
        if container is None or watcher is None:
            return
        record.stopping = self._owner.is_ending or not record.kill_reason
        note = record.kill_reason or f"Stopping container {record.name}"
        event = self._context.recorder.container_event
        event(self._owner.pod, record, "Normal", "Killing", note)
        alarm = self._owner.begin(self._kill_after(container, grace), f"kill {record.name}")
        hook = (record.spec.get("lifecycle") or {}).get("preStop")
        if hook is not None and sandbox is not None and grace > 0:
            await self._run_pre_stop(record, container, sandbox, hook)
        self._context.runtime.signal(container, stop_signal(record))
        await asyncio.wait([watcher])
        alarm.cancel()

    async def _run_pre_stop(
        self, record: ContainerRecord, container: RunningContainer, sandbox: Sandbox, hook: Object
    ) -> None:
        """Run a preStop hook; it is over when the container ends, which the alarm sees to."""
        running = self._owner.begin(
            self._tell_pre_stop(record, container, sandbox, hook), f"preStop {record.name}"
        )
        container.exited.add_done_callback(lambda _: running.cancel())
        await asyncio.wait([running])

    async def _tell_pre_stop(
        self, record: ContainerRecord, container: RunningContainer, sandbox: Sandbox, hook: Object
    ) -> None:
        try:
            await self._starter.run_hook(record, container, sandbox, hook)
        except HookFailed:
            self._context.recorder.container_event(
                self._owner.pod, record, "Warning", "FailedPreStopHook", "PreStopHook failed"
            )

    async def _kill_after(self, container: RunningContainer, grace: float) -> None:
        await self._context.clock.sleep(grace)
        self._context.runtime.signal(container, signal.SIGKILL)


def end_reason(ended: Exit) -> str:
    """Return the reason of a terminated state; a process killed for memory goes before all."""
    if ended.is_oom:
        return "OOMKilled"
    return "Error" if ended.exit_code else "Completed"


def stop_signal(record: ContainerRecord) -> int:
    """Return the signal that asks a container to end: its own, its image's, or SIGTERM."""
    name = (record.spec.get("lifecycle") or {}).get("stopSignal")
    name = name or (record.image.stop_signal if record.image else "SIGTERM")
    return int(signal.Signals[name]) if name in signal.Signals.__members__ else signal.SIGTERM
