"""One run of a container: start, probes, end; and stopping it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Protocol

from kubewright.api.errors import KubewrightError
from kubewright.api.resource import NamespacedName, Object
from kubewright.local.node.container_starter import (
    MAX_TERMINATION_MESSAGE,
    ContainerStarter,
)
from kubewright.local.node.containers import (
    ContainerRecord,
    Role,
    Running,
    Terminated,
    Waiting,
    describe_end,
    spec_resources,
)
from kubewright.local.node.lifecycle_hooks import HookFailed, named_ports, run_hook
from kubewright.local.node.logs import LogFollower
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.pod_plan import list_earlier, may_start
from kubewright.local.node.probes import (
    ProbeKind,
    describe_result,
    expand_command,
    run_probe,
)
from kubewright.local.node.restart_rules import (
    RESTART_ALL,
    find_action,
    is_restarted_by_probe,
)
from kubewright.local.node.runtime import (
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
MAX_POD_MESSAGES = 12 * 1024
MIN_GRACE_SECONDS = 2.0
"""What a container has at least between SIGTERM and SIGKILL, as at the kubelet."""
LOOK_SECONDS = 0.5
MAX_PROBE_TRIES = 3


class Owner(Protocol):
    """The pod's worker, as a container's run sees it."""

    pod: Object
    records: list[ContainerRecord]
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

    def restart_all(self) -> None:
        """End all containers and start the pod from its beginning."""
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
        pod, before, asked = self._owner.pod, record.ended, spec_resources(record)
        others = self._owner.records
        container = await self._starter.start(pod, record, sandbox, volumes, others)
        if container is None:
            if isinstance(record.state, Terminated) and record.state is not before:
                self._count_restart(record, before)
                self._end(record, record.state)
            return
        self._count_restart(record, before)
        record.container = container
        record.allocated = record.actual = asked
        record.container_id = f"kubewright://{container.id}"
        record.kill_reason, record.failure = "", None
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
            await self._stop(record, sandbox, self._grace)
            return
        self._note_started(record)

    def resume(self, record: ContainerRecord, sandbox: Sandbox) -> None:
        """Watch over a container that an earlier agent of the node has started."""
        if record.container is None:
            return
        self._note_started(record)
        record.watcher = self._owner.begin(
            self._watch(record, record.container, sandbox), f"watch {record.name}"
        )

    def _count_restart(self, record: ContainerRecord, before: Terminated | None) -> None:
        if before is not None:
            record.last = before
            record.restarts += 0 if record.is_reset else 1
        record.is_reset = False

    async def _run_post_start(
        self, record: ContainerRecord, container: RunningContainer, sandbox: Sandbox, hook: Object
    ) -> bool:
        try:
            await run_hook(self._context, self._owner.pod, record, container, sandbox, hook)
        except HookFailed as error:
            self._context.recorder.container_event(
                self._owner.pod, record, "Warning", "FailedPostStartHook", "PostStartHook failed"
            )
            record.failure = Waiting("PostStartHookError", str(error))
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
            if kind.field in record.spec and not (kind is ProbeKind.STARTUP and record.started)
        ]
        ended = await asyncio.shield(container.exited)
        for probe in probes:
            probe.cancel()
        text = await asyncio.to_thread(self._read_message, record, container, ended.exit_code)
        record.container = None
        self._end(record, describe_end(container, ended, text))
        self._owner.wake()

    def _end(self, record: ContainerRecord, ended: Terminated) -> None:
        record.state = ended
        record.ready = record.started = None
        if find_action(record.spec, ended.exit_code) == RESTART_ALL and not self._owner.is_ending:
            self._owner.restart_all()
            return
        if record.role is Role.INIT and ended.exit_code == 0:
            record.passed = True
            return
        wanted = not record.stopping and may_start(self._owner.pod, record)
        if not self._owner.is_ending and wanted:
            self._owner.back_off(record, ended)

    def _read_message(
        self, record: ContainerRecord, container: RunningContainer, exit_code: int
    ) -> str:
        file = self._starter.termination_file(record)
        limit = min(MAX_TERMINATION_MESSAGE, MAX_POD_MESSAGES // len(self._owner.records))
        data = file.read_bytes()[-MAX_TERMINATION_MESSAGE:][:limit] if file.exists() else b""
        fallback = record.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not data and fallback and exit_code:
            with contextlib.closing(LogFollower(container.config.log)) as follower:
                entries = list(follower.read_all())[-FALLBACK_LINES:]
            data = b"".join(entry.text for entry in entries)[-FALLBACK_BYTES:][:limit]
        return data.decode(errors="replace")

    async def _probe(
        self,
        kind: ProbeKind,
        record: ContainerRecord,
        container: RunningContainer,
        sandbox: Sandbox,
    ) -> None:
        probe, clock = expand_command(record.spec, record.spec[kind.field]), self._context.clock
        ports = named_ports(record.spec)
        while not record.is_running or (kind is not ProbeKind.STARTUP and not record.is_started):
            await clock.sleep(0.05)

        async def ask() -> ProbeResult:
            for _ in range(MAX_PROBE_TRIES - 1):
                result = await self._context.runtime.probe(container, sandbox, probe, ports)
                if result.outcome is not Outcome.UNKNOWN:
                    return result
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
        if self._owner.is_ending and kind is not ProbeKind.READINESS:
            return False
        if told := describe_result(kind, result):
            event = self._context.recorder.container_event
            event(self._owner.pod, record, "Warning", *told)
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
        head = "Init container" if record.role is Role.SIDECAR else "Container"
        note = f"{head} {record.name} failed {kind.value.lower()} probe"
        if record.role is not Role.SIDECAR and is_restarted_by_probe(self._owner.pod, record):
            note += ", will be restarted"
        record.kill_reason = note
        own = record.spec[kind.field].get("terminationGracePeriodSeconds")
        self._begin_stop(record, sandbox, self._grace if own is None else lambda: float(own))

    def replace(self, record: ContainerRecord, sandbox: Sandbox | None, why: str = "") -> None:
        """Stop a container whose image or resources were changed, so that it starts again."""
        if record.container is None or record.work is not None or self._owner.is_ending:
            return
        if why:
            record.kill_reason = why
        elif record.role is Role.SIDECAR:
            record.kill_reason = f"Init container {record.name} definition changed"
        else:
            record.kill_reason = f"Container {record.name} definition changed, will be restarted"
        self._begin_stop(record, sandbox, self._grace)

    def _begin_stop(
        self, record: ContainerRecord, sandbox: Sandbox | None, grace: Callable[[], float]
    ) -> None:
        work = self.stop(record, sandbox, grace)
        record.work = self._owner.begin(work, f"stop {record.name}")

    def _grace(self) -> float:
        return float(self._owner.pod["spec"].get("terminationGracePeriodSeconds", 30))

    async def stop(
        self, record: ContainerRecord, sandbox: Sandbox | None, grace: Callable[[], float]
    ) -> None:
        """Stop a container: preStop hook, SIGTERM, and SIGKILL after the grace in all.

        `grace` gives the seconds since the stop began; they may become fewer meanwhile. A sidecar
        is sent SIGTERM when those that count on it have ended, or the grace has.
        """
        try:
            await self._stop(record, sandbox, grace)
        finally:
            record.work = None
            record.stopping = False
            self._owner.wake()

    async def _stop(
        self, record: ContainerRecord, sandbox: Sandbox | None, grace: Callable[[], float]
    ) -> None:
        container, watcher = record.container, record.watcher
        if container is None or watcher is None:
            return
        record.stopping = self._owner.is_ending or not record.kill_reason
        note = record.kill_reason or f"Stopping container {record.name}"
        event = self._context.recorder.container_event
        event(self._owner.pod, record, "Normal", "Killing", note)
        clock = self._context.clock
        began = clock.monotonic()
        over = self._owner.begin(self._wait_for_grace(began, grace), f"grace of {record.name}")
        hook = (record.spec.get("lifecycle") or {}).get("preStop")
        if hook is not None and sandbox is not None and grace() > 0:
            await self._run_pre_stop(record, container, sandbox, hook, over)
        if not record.kill_reason:
            await self._wait_for_turn(record, watcher, over)
        self._context.runtime.signal(container, stop_signal(record))
        asked = clock.monotonic()
        await asyncio.wait([watcher, over], return_when=asyncio.FIRST_COMPLETED)
        if not watcher.done() and (left := asked + MIN_GRACE_SECONDS - clock.monotonic()) > 0:
            rest = self._owner.begin(clock.sleep(left), f"rest of {record.name}")
            await asyncio.wait([watcher, rest], return_when=asyncio.FIRST_COMPLETED)
            rest.cancel()
        over.cancel()
        self._context.runtime.signal(container, signal.SIGKILL)
        await asyncio.wait([watcher])

    async def _wait_for_grace(self, began: float, grace: Callable[[], float]) -> None:
        clock = self._context.clock
        while (left := began + grace() - clock.monotonic()) > 0:
            await clock.sleep(min(left, LOOK_SECONDS))

    async def _wait_for_turn(
        self, record: ContainerRecord, watcher: asyncio.Task[None], over: asyncio.Task[None]
    ) -> None:
        """Wait until those that end before a sidecar have ended."""
        earlier = list_earlier(record, self._owner.records)
        while not watcher.done() and not over.done():
            tasks = [task for other in earlier for task in (other.work, other.watcher) if task]
            waited = [task for task in tasks if not task.done()]
            if not waited:
                return
            await asyncio.wait([*waited, watcher, over], return_when=asyncio.FIRST_COMPLETED)

    async def _run_pre_stop(
        self,
        record: ContainerRecord,
        container: RunningContainer,
        sandbox: Sandbox,
        hook: Object,
        over: asyncio.Task[None],
    ) -> None:
        """Run a preStop hook; it is over when the container or the grace is."""
        running = self._owner.begin(
            self._tell_pre_stop(record, container, sandbox, hook), f"preStop {record.name}"
        )
        container.exited.add_done_callback(lambda _: running.cancel())
        await asyncio.wait([running, over], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()

    async def _tell_pre_stop(
        self, record: ContainerRecord, container: RunningContainer, sandbox: Sandbox, hook: Object
    ) -> None:
        try:
            await run_hook(self._context, self._owner.pod, record, container, sandbox, hook)
        except HookFailed:
            self._context.recorder.container_event(
                self._owner.pod, record, "Warning", "FailedPreStopHook", "PreStopHook failed"
            )


def stop_signal(record: ContainerRecord) -> int:
    """Return the signal that asks a container to end: its own, its image's, or SIGTERM."""
    name = (record.spec.get("lifecycle") or {}).get("stopSignal")
    name = name or (record.image.stop_signal if record.image else "SIGTERM")
    return int(signal.Signals[name]) if name in signal.Signals.__members__ else signal.SIGTERM
