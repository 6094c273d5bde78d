"""Pods without processes: containers that always work, for machines and tests that run none."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import parse_time
from kubewright.client.clock import Clock, SystemClock
from kubewright.local.node.container_command import ContainerCommand
from kubewright.local.node.container_streams import Streams
from kubewright.local.node.containers import STATUSES, Role, is_finite, pod_containers
from kubewright.local.node.image.image import Image, ImageError
from kubewright.local.node.image.reference import parse_reference
from kubewright.local.node.pod_addresses import POD_NETWORK, AddressPool
from kubewright.local.node.pod_files import pod_hostname
from kubewright.local.node.resources import ContainerResources
from kubewright.local.node.runtime import (
    AdoptedPod,
    ContainerConfig,
    ExecResult,
    Exit,
    Outcome,
    PodIdentity,
    ProbeResult,
    RunningContainer,
    Sandbox,
    StartError,
)
from kubewright.local.node.security import build_security
from kubewright.local.node.simulated_usage import SimulatedMeter
from kubewright.local.node.usage import Usage
from kubewright.version import VERSION


class SimulatedRuntime:
    """Runs nothing and says so in the node's runtime version.

    Every image is there. Containers run until they are stopped; those that are meant to end, of
    Jobs and init containers, exit with 0 after `run_seconds`. Probes succeed, so that a pod is
    ready after the initial delay of its probe. Signals end a container at once. When the node is
    started again, what the API says that runs goes on.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        pod_cidr: str | None = None,
        run_seconds: float = 1.0,
    ) -> None:
        self._clock = clock or SystemClock()
        self._pool = AddressPool(IPv4Network(pod_cidr) if pod_cidr else POD_NETWORK)
        self._run_seconds = run_seconds
        self._running: dict[str, RunningContainer] = {}
        self._meters: dict[str, SimulatedMeter] = {}
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The name and version for Node.status.nodeInfo.containerRuntimeVersion."""
        return f"simulated://{VERSION}"

    @property
    def host_address(self) -> str:
        """An address of the pod network that stands for the node."""
        return self._pool.gateway

    @property
    def pod_cidr(self) -> str:
        """The network of the made-up addresses."""
        return str(self._pool.network)

    @property
    def is_one_uid(self) -> bool:
        """Nothing runs, so nothing is owned by root."""
        return True

    @property
    def has_limits(self) -> bool:
        """Nothing runs that could go beyond a limit."""
        return True

    @property
    def network(self) -> None:
        """Simulated pods have no network."""
        return None

    async def start(self) -> None:
        """Nothing is needed."""

    async def wait(self) -> None:
        """Wait until `stop`."""
        await self._stopped.wait()

    async def stop(self) -> None:
        """End all containers."""
        for container in list(self._running.values()):
            self.signal(container, signal.SIGKILL)
        for task in self._tasks:
            task.cancel()
        self._stopped.set()

    def enter_command(self) -> list[str]:
        """There is no network to enter."""
        return []

    async def mount_memory(self, path: Path, size: int | None) -> None:
        """Nothing sees the folder."""

    def inside_path(self, path: Path) -> Path:
        """Return the path itself."""
        return path

    async def find_image(self, name: str) -> Image | None:
        """Every image is there, but for those of registries that cannot be (RFC 6761: .invalid)."""
        reference = parse_reference(name)
        if reference.domain.partition(":")[0].endswith(".invalid"):
            return None
        return Image(name=str(reference), image_id=f"simulated://{reference}", cmd=("simulated",))

    async def pull_image(self, name: str) -> Image:
        """Return an image that is there. Raises ImageError for a registry that cannot be."""
        image = await self.find_image(name)
        if image is None:
            host = parse_reference(name).domain
            raise ImageError("ErrImagePull", f"lookup {host}: no such host")
        return image

    def adopt(self, pod: Object) -> AdoptedPod | None:
        """Go on with what the API says that runs, at an address of this network."""
        status, key = pod.get("status") or {}, NamespacedName.of(pod)
        address = status.get("podIP") or ""
        if not self._pool.includes(address):
            return None
        self._pool.take(address)
        identity = PodIdentity(key, pod["metadata"]["uid"], pod_hostname(pod))
        told = {entry["name"]: entry for group in STATUSES for entry in status.get(group) or ()}
        containers = [
            self._resume(pod, spec, role, told[spec["name"]])
            for spec, role in pod_containers(pod)
            if ((told.get(spec["name"]) or {}).get("state") or {}).get("running")
        ]
        return AdoptedPod(Sandbox(identity, address), containers)

    def _resume(self, pod: Object, spec: Object, role: Role, told: Object) -> RunningContainer:
        image = Image(told.get("image") or "", told.get("imageID") or "")
        config = ContainerConfig(
            name=spec["name"],
            attempt=told.get("restartCount") or 0,
            image=image,
            argv=(),
            env={},
            workdir="/",
            security=build_security(pod, spec, image),
            log=Path(os.devnull),
            is_finite=is_finite(pod, role),
        )
        container_id = (told.get("containerID") or "").removeprefix("kubewright://")
        started = parse_time(told["state"]["running"]["startedAt"])
        exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        container = RunningContainer(container_id, config, started, exited)
        self._keep(container)
        return container

    async def drop_others(self, uids: Collection[str]) -> None:
        """Nothing runs that could be left."""

    async def create_sandbox(self, identity: PodIdentity) -> Sandbox:
        """Hand out an address."""
        if identity.shares_network:
            return Sandbox(identity, self.host_address)
        return Sandbox(identity, self._pool.allocate())

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Take the address back."""
        self._pool.release(sandbox.address)

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> RunningContainer:
        """Start a container that does nothing. Its log is empty."""
        await asyncio.to_thread(_touch, config.log)
        exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        container = RunningContainer(uuid.uuid4().hex, config, self._clock.now(), exited)
        self._keep(container)
        return container

    def _keep(self, container: RunningContainer) -> None:
        self._running[container.id] = container
        if container.config.is_finite:
            task = asyncio.create_task(self._complete_later(container))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _complete_later(self, container: RunningContainer) -> None:
        await self._clock.sleep(self._run_seconds)
        self.complete(container)

    def layer(self, container: RunningContainer) -> Path:
        """Nothing is written."""
        return Path("/nonexistent")

    async def limit(self, container: RunningContainer, resources: ContainerResources) -> None:
        """Nothing runs that could use anything."""

    async def measure(self, container: RunningContainer, pod: Object) -> Usage | None:
        """Return what the pod's annotations or its requests say; see `simulated_usage`."""
        if container.id not in self._running:
            return None
        meter = self._meters.setdefault(container.id, SimulatedMeter(container.started_at))
        return meter.read(pod, container.config.name, self._clock.now())

    def signal(self, container: RunningContainer, number: int) -> None:
        """End a container: of SIGTERM it dies well, of SIGKILL as a killed process does."""
        self._meters.pop(container.id, None)
        if self._running.pop(container.id, None) is not None:
            code = 0 if number == signal.SIGTERM else 128 + number
            container.exited.set_result(Exit(code, self._clock.now()))

    def complete(self, container: RunningContainer, exit_code: int = 0) -> None:
        """Let a container end by itself."""
        self._meters.pop(container.id, None)
        if self._running.pop(container.id, None) is not None:
            container.exited.set_result(Exit(exit_code, self._clock.now()))

    async def execute(
        self, container: RunningContainer, argv: Sequence[str], timeout: float | None = None
    ) -> ExecResult:
        """Succeed without output."""
        if container.exited.done():
            raise StartError(f"container {container.config.name} is not running")
        return ExecResult(0, "")

    async def open_command(
        self, container: RunningContainer, argv: Sequence[str], *, stdin: bool, tty: bool
    ) -> ContainerCommand:
        """Refuse: nothing runs that a command could join."""
        raise StartError(f"container {container.config.name} is simulated: it has no processes")

    def attach(self, container: RunningContainer, *, stdin: bool) -> Streams:
        """Refuse: there are no streams."""
        raise StartError(f"container {container.config.name} is simulated: it has no processes")

    async def connect(self, address: str, port: int) -> socket.socket:
        """Refuse: nothing listens."""
        raise OSError("the pod is simulated: it has no processes")

    async def probe(
        self, container: RunningContainer, sandbox: Sandbox, probe: Object, ports: Mapping[str, int]
    ) -> ProbeResult:
        """Succeed."""
        return ProbeResult(Outcome.SUCCESS)


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
