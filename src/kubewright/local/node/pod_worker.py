"""The worker of one pod: brings its containers to what the API says, and tells how they are.

Level-triggered: each round looks at the pod as it is now and at its containers as they are now,
plans the next steps, begins them, and publishes the status. Whatever happens only wakes it up.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
from collections.abc import Coroutine
from datetime import timedelta

from kubewright.api.builtin import POD
from kubewright.api.errors import (
    APIError,
    Conflict,
    KubewrightError,
    NotFound,
    TransportError,
)
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time, parse_time
from kubewright.local.node.container_run import ContainerRun
from kubewright.local.node.containers import (
    ContainerRecord,
    Role,
    Terminated,
    Waiting,
    add_records,
    build_records,
    pod_containers,
    reset_records,
)
from kubewright.local.node.host_path import MountError
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.pod_admission import find_refusal
from kubewright.local.node.pod_files import kernel_hostname
from kubewright.local.node.pod_plan import (
    Step,
    Stop,
    is_failed_init,
    is_finished,
    plan_end,
    plan_pod,
)
from kubewright.local.node.pod_resize import PodResize
from kubewright.local.node.pod_volumes import PodVolumes
from kubewright.local.node.runtime import PodIdentity
from kubewright.local.node.status import (
    PodFacts,
    build_rejection,
    build_status,
    compute_phase,
    settle_records,
)
from kubewright.local.node.status_publisher import StatusPublisher
from kubewright.local.node.storage_eviction import EVICTED, StorageWatch, is_limited

_logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
GONE_GRACE_SECONDS = 2.0
EVICTION_GRACE_SECONDS = 1.0
QUIET_SECONDS = 2.0
REFRESH_SECONDS = 30.0
"""How often volumes that the API fills are compared with it; tokens live much longer."""
LEAVE_SECONDS = 1.0
"""How long the stop of a pod waits at most for Services to lead elsewhere."""
RESIZE_SECONDS = 5.0
"""How often a resize that waits for room, or that the kernel refused, is tried again."""
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
TERMINAL = ("Succeeded", "Failed")


class UnsupportedPod(KubewrightError):
    """A pod asks for what a local node cannot give."""


class PodWorker:
    """Runs one pod, from its first sight to its removal from the API."""

    def __init__(self, context: NodeContext, pod: Object) -> None:
        self.pod = pod
        self.key = NamespacedName.of(pod)
        self.uid: str = pod["metadata"]["uid"]
        adopted = context.runtime.adopt(pod)
        self.records = build_records(pod, adopted.containers if adopted else None)
        self._context = context
        self._wake = asyncio.Event()
        self._volumes = PodVolumes(context, self.uid)
        self._resize = PodResize(context)
        self._storage = StorageWatch(context)
        self._ousted = self._find_refusal()
        self._is_rejected = self._ousted is not None
        self._run = ContainerRun(context, self)
        self._group: asyncio.TaskGroup | None = None
        self._gone = False
        self._sandbox = adopted.sandbox if adopted else None
        told = (pod.get("status") or {}).get("podIP") or ""
        self._address = adopted.sandbox.address if adopted else told
        started = (pod.get("status") or {}).get("startTime")
        self._started_at = parse_time(started) if started else context.clock.now()
        self._overrun = False
        self._refresh_at = 0.0
        self._publisher = StatusPublisher(context.client, self.key, self.uid)
        self._conditions: list[Object] = (pod.get("status") or {}).get("conditions") or []
        self._retry_at: float | None = None
        self._deleted = False
        self._grace_since = 0.0
        self._restarting_all = False
        self._settled = False
        self._was_terminal = (pod.get("status") or {}).get("phase") in TERMINAL

    def _find_refusal(self) -> tuple[str, str] | None:
        """Return why the node does not take the pod, unless it has taken it before."""
        status = self.pod.get("status") or {}
        refusal = None if status.get("startTime") else find_refusal(self.pod)
        if refusal is None:
            return None
        reason, message = refusal
        self._context.recorder.event(self.pod, "Warning", reason, message)
        return reason, f"Pod was rejected: {message}"

    def update(self, pod: Object) -> None:
        """Take the pod as the API has it now."""
        before = self.grace_seconds
        self.pod = pod
        if self.grace_seconds < before:
            self._grace_since = self._context.clock.monotonic()
        add_records(pod, self.records)
        for record, (spec, _) in zip(self.records, pod_containers(pod), strict=False):
            changed = spec.get("image") != record.spec.get("image")
            record.spec = spec
            if changed and self._group is not None:
                self._run.replace(record, self._sandbox)
        self._publisher.observe(pod)
        self._wake.set()

    def forget(self) -> None:
        """The pod is gone from the API: end its containers at once."""
        self._gone = True
        self.kill(stopping_only=True)
        self._wake.set()

    def kill(self, *, stopping_only: bool = False) -> None:
        """Kill the pod's containers, or those that have been asked to stop already."""
        for record in self.records:
            if record.container is not None and (record.stopping or not stopping_only):
                self._context.runtime.signal(record.container, signal.SIGKILL)

    def wake(self) -> None:
        """Look again: something has happened."""
        self._wake.set()

    @property
    def is_ending(self) -> bool:
        """Tell whether the pod is to end, rather than to run."""
        deleted = bool(self.pod["metadata"].get("deletionTimestamp"))
        return deleted or self._gone or self._overrun or self._ousted is not None

    @property
    def grace_seconds(self) -> float:
        """How long a container may take to end after SIGTERM."""
        if self._gone:
            return GONE_GRACE_SECONDS
        if self._ousted is not None:
            return EVICTION_GRACE_SECONDS
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if metadata.get("deletionTimestamp"):
            return float(metadata.get("deletionGracePeriodSeconds") or 0)
        return float(spec.get("terminationGracePeriodSeconds", 30))

    def restart_all(self) -> None:
        """End all containers, and start the pod from its beginning in the same sandbox."""
        self._restarting_all = True
        self._wake.set()

    def begin(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Begin a piece of work that ends with the worker at the latest."""
        if self._group is None:
            work.close()
            raise RuntimeError(f"the worker of pod {self.key} does not run")
        return self._group.create_task(work, name=f"{self.key}: {name}")

    async def run(self) -> None:
        """Work until the pod is gone from the API and nothing of it runs."""
        async with asyncio.TaskGroup() as self._group:
            if self._sandbox is not None:
                for record in self.records:
                    self._run.resume(record, self._sandbox)
            while not await self._sync():
                await self._wait()
        await self._clean_up()

    async def _wait(self) -> None:
        now = self._context.clock.monotonic()
        times = [record.retry_at for record in self.records if record.retry_at > now]
        times += [self._retry_at] if self._retry_at is not None else []
        if self._volumes.is_written and not self.is_ending and not self._is_over:
            times.append(self._refresh_at)
        if deadline := self._deadline_in():
            times.append(now + deadline)
        if is_limited(self.pod) and not self.is_ending and not self._is_over:
            times.append(self._storage.due)
        alarm = None
        if times:
            alarm = self.begin(self._wake_at(min(times)), "alarm")
        await self._wake.wait()
        if alarm is not None:
            alarm.cancel()

    async def _wake_at(self, moment: float) -> None:
        await self._context.clock.sleep(moment - self._context.clock.monotonic())
        self._wake.set()

    def _deadline_in(self) -> float | None:
        """Return the seconds until activeDeadlineSeconds are over."""
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        if limit is None or self._overrun or self._is_over:
            return None
        end = self._started_at + timedelta(seconds=limit)
        return max(0.001, (end - self._context.clock.now()).total_seconds())

    async def _sync(self) -> bool:
        """Do what is to be done now; return whether the pod is done with for ever."""
        self._wake.clear()
        self._retry_at = None
        self._check_deadline()
        if not self.is_ending and not self._is_over and not await self._prepare():
            await self._publish()
            return False
        if not self.is_ending and not self._is_over:
            await self._resize_containers()
            await self._check_storage()
        for step in self._plan():
            self._begin(step)
        # Asked before publishing: what ends while a status is written has its own to be written.
        is_idle, is_ending = self._is_idle, self.is_ending
        if is_idle and (is_ending or self._is_over):
            await self._release_sandbox()
            settle_records(self.pod, self.records)
            self._settled = True
        await self._publish()
        return is_idle and is_ending and await self._delete()

    async def _check_storage(self) -> None:
        volumes = self._volumes.ready
        excess = await self._storage.find_excess(self.pod, self.records, volumes)
        if excess:
            self._ousted = EVICTED, excess
            self._context.recorder.event(self.pod, "Warning", EVICTED, excess)

    async def _resize_containers(self) -> None:
        for record in await self._resize.run(self.pod, self.records):
            why = f"Container {record.name} resize requires restart"
            self._run.replace(record, self._sandbox, why)
        if self._resize.state is not None:
            self._retry_in(RESIZE_SECONDS)

    def _plan(self) -> list[Step]:
        if not self._restarting_all or self.is_ending:
            ending = self.is_ending or self._is_over
            return plan_pod(self.pod, self.records, ending=ending)
        stops: list[Step] = [
            step for step in plan_end(self.records) if step.record.role is not Role.EPHEMERAL
        ]
        for step in stops:
            step.record.kill_reason = "killing"
        if not stops and all(not r.is_running and r.work is None for r in self.records):
            reset_records(self.records)
            self._restarting_all = False
            self._wake.set()
        return stops

    def _check_deadline(self) -> None:
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        if limit is None or self._overrun or self._is_over:
            return
        if self._context.clock.now() - self._started_at >= timedelta(seconds=limit):
            self._overrun = True
            recorder = self._context.recorder
            recorder.event(self.pod, "Normal", "DeadlineExceeded", DEADLINE_MESSAGE)

    @property
    def _is_over(self) -> bool:
        """Tell whether the pod has ended by itself: Succeeded or Failed."""
        if self._restarting_all:
            return False
        return (
            self._was_terminal
            or is_failed_init(self.pod, self.records)
            or (
                is_finished(self.pod, self.records)
                and compute_phase(self.pod, self.records) in TERMINAL
            )
        )

    @property
    def _is_idle(self) -> bool:
        """Tell whether nothing of the pod runs or is being started or stopped."""
        return not any(r.is_running or r.work is not None for r in self.records)

    async def _prepare(self) -> bool:
        """Set up volumes and the sandbox; return whether containers may start."""
        context = self._context
        try:
            if self._sandbox is None or self._needs_volumes:
                references = await context.read_references(self.pod)
                await self._volumes.set_up(self.pod, references)
                self._refresh_at = context.clock.monotonic() + REFRESH_SECONDS
            if self._sandbox is None:
                await self._create_sandbox()
        except MountError as error:
            context.recorder.event(self.pod, "Warning", "FailedMount", str(error))
        except (APIError, TransportError) as error:
            _logger.warning("pod %s cannot be prepared: %s", self.key, error)
        except (KubewrightError, OSError) as error:
            note = f"Failed to create pod sandbox: {error}"
            context.recorder.event(self.pod, "Warning", "FailedCreatePodSandBox", note)
        else:
            await self._refresh_volumes()
            return True
        self._retry_in(RETRY_SECONDS)
        return False

    async def _create_sandbox(self) -> None:
        if lacking := list_unsupported(self.pod):
            raise UnsupportedPod(f"local nodes do not give pods {', '.join(lacking)}")
        spec, context = self.pod["spec"], self._context
        sysctls = (spec.get("securityContext") or {}).get("sysctls") or ()
        identity = PodIdentity(
            self.key,
            self.uid,
            kernel_hostname(self.pod, context.cluster_domain, context.name),
            shares_network=bool(spec.get("hostNetwork")),
            shares_processes=bool(spec.get("shareProcessNamespace")),
            sysctls=tuple((entry["name"], entry["value"]) for entry in sysctls),
        )
        self._sandbox = await self._context.runtime.create_sandbox(identity)
        self._address = self._sandbox.address

    async def _refresh_volumes(self) -> None:
        """Bring volumes up to date with the API now and then; a failure leaves them as they are."""
        now = self._context.clock.monotonic()
        if not self._volumes.is_written or now < self._refresh_at:
            return
        self._refresh_at = now + REFRESH_SECONDS
        try:
            await self._volumes.refresh(self.pod, await self._context.read_references(self.pod))
        except MountError as error:
            self._context.recorder.event(self.pod, "Warning", "FailedMount", str(error))
        except (KubewrightError, OSError) as error:
            _logger.warning("volumes of pod %s were not refreshed: %s", self.key, error)

    @property
    def _needs_volumes(self) -> bool:
        volumes = self.pod["spec"].get("volumes") or ()
        return any(volume["name"] not in self._volumes.ready for volume in volumes)

    def _begin(self, step: Step) -> None:
        record = step.record
        if isinstance(step, Stop):
            began = self._context.clock.monotonic()
            record.work = self.begin(self._stop(record, began), f"stop {record.name}")
        elif self._sandbox is not None:
            if record.retry_at > self._context.clock.monotonic():
                return
            # One after the other, as the kubelet starts them: the first may count on being first.
            if any(other.starting_since is not None for other in self.records):
                return
            record.starting_since = self._context.clock.monotonic()
            work = self._run.start(record, self._sandbox, self._volumes.ready)
            record.work = self.begin(work, f"start {record.name}")

    async def _stop(self, record: ContainerRecord, began: float) -> None:
        """Stop a container; one of a pod that ends first when no Service leads to it any more.

        A server that is told to stop listens no more at once: connections that come before the way
        to it is closed would be refused.
        """
        if self.is_ending and not self.pod["spec"].get("hostNetwork"):
            await self._context.wait_left(self._address, min(LEAVE_SECONDS, self.grace_seconds))
        await self._run.stop(record, self._sandbox, lambda: self._grace_left(began))

    def _grace_left(self, began: float) -> float:
        """Return the grace in seconds since `began`; one that was shortened counts from then."""
        if self._restarting_all and not self.is_ending:
            return 0.0
        return self.grace_seconds + max(0.0, self._grace_since - began)

    def back_off(self, record: ContainerRecord, ended: Terminated) -> None:
        """Delay the restart of a container that has ended, after the first time."""
        now = self._context.clock.monotonic()
        ran = timedelta()
        if ended.started_at and ended.finished_at:
            ran = ended.finished_at - ended.started_at
        record.restart.fail(now, ran_since=now - ran.total_seconds())
        record.retry_at = record.restart.until
        if not record.restart.is_waiting(now):
            if record.failure is not None:
                record.state, record.last = record.failure, ended
            return
        full_name = f"{self.key.name}_{self.key.namespace}({self.uid})"
        delay = format_seconds(record.restart.seconds)
        record.last = ended
        record.state = Waiting(
            "CrashLoopBackOff",
            f"back-off {delay} restarting failed container={record.name} pod={full_name}",
        )
        self._context.recorder.container_event(
            self.pod,
            record,
            "Warning",
            "BackOff",
            f"Back-off restarting failed container {record.name} in pod {full_name}",
        )

    def _retry_in(self, seconds: float) -> None:
        moment = self._context.clock.monotonic() + seconds
        self._retry_at = moment if self._retry_at is None else min(moment, self._retry_at)

    def build_status(self) -> Object:
        """Build the status of the pod as it is now."""
        if self._is_rejected and self._ousted is not None:
            return build_rejection(self.pod, *self._ousted, format_time(self._started_at))
        overrun = ("DeadlineExceeded", DEADLINE_MESSAGE) if self._overrun else ("", "")
        reason, message = self._ousted or overrun
        facts = PodFacts(
            start_time=format_time(self._started_at),
            host_address=self._context.runtime.host_address,
            address=self._address,
            has_sandbox=self._sandbox is not None,
            reason=reason,
            message=message,
            is_restarting_all=self._restarting_all,
            is_settled=self._settled,
            resize=self._resize.state,
        )
        now = format_time(self._context.clock.now())
        status = build_status(self.pod, self.records, facts, now=now, before=self._conditions)
        self._conditions = status["conditions"]
        return status

    @property
    def _is_between(self) -> bool:
        """Tell whether containers are being started one after the other: not worth a status each.

        Not for long, since a slow image or hook must not hide what becomes of the others.
        """
        starting = [r.starting_since for r in self.records if r.starting_since is not None]
        if not starting or not self._publisher.has_published:
            return False
        left = min(starting) + QUIET_SECONDS - self._context.clock.monotonic()
        if left > 0:
            self._retry_in(left)
        return left > 0

    async def _publish(self) -> None:
        """Write the status, if it differs from what was written last."""
        if self._gone or self._was_terminal or self._deleted or self._is_between:
            return
        if not await self._publisher.publish(self.build_status()):
            self._retry_in(RETRY_SECONDS)

    async def _release_sandbox(self) -> None:
        if self._sandbox is not None:
            await self._context.runtime.remove_sandbox(self._sandbox)
            self._sandbox = None

    async def _delete(self) -> bool:
        """Remove a deleted pod from the API, once nothing of it runs; return whether it is gone."""
        if self._gone:
            return True
        metadata = self.pod["metadata"]
        if not metadata.get("deletionTimestamp") or self._deleted or metadata.get("finalizers"):
            return False
        if self._retry_at is not None:
            return False
        try:
            await self._context.client.delete(
                POD,
                self.key.name,
                namespace=self.key.namespace,
                uid=self.uid,
                grace_period_seconds=0,
            )
        except (NotFound, Conflict):
            return True
        except (APIError, KubewrightError) as error:
            _logger.warning("pod %s was not deleted: %s", self.key, error)
            self._retry_in(RETRY_SECONDS)
        else:
            # The cache says when it is gone.
            self._deleted = True
        return False

    async def abandon(self) -> None:
        """Let go of everything after a failure; another worker takes the pod up again."""
        self.kill()
        exits = [r.container.exited for r in self.records if r.container is not None]
        await asyncio.gather(*map(asyncio.shield, exits))
        await self._release_sandbox()

    async def _clean_up(self) -> None:
        await self._release_sandbox()
        await self._volumes.tear_down()
        logs = self._context.log_folder(self.key, self.uid)
        await asyncio.to_thread(shutil.rmtree, logs, ignore_errors=True)


def list_unsupported(pod: Object) -> list[str]:
    """List what a pod asks for that local nodes do not give, by the names of the fields."""
    spec = pod["spec"]
    fields = ("hostPID", "hostIPC")
    return [field for field in fields if spec.get(field)]


def format_seconds(seconds: float) -> str:
    """Write a duration as Go does: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
