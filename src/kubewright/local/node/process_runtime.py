"""Pods as processes in Linux namespaces: no container engine, as root or as an ordinary user."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from kubewright.api.resource import Object
from kubewright.client.clock import Clock, SystemClock
from kubewright.local.node.cgroups import ContainerGroup
from kubewright.local.node.container_command import ContainerCommand
from kubewright.local.node.container_limits import ContainerLimits
from kubewright.local.node.container_streams import Attachment, ContainerStreams
from kubewright.local.node.http_probe import probe_http
from kubewright.local.node.image.image import Image
from kubewright.local.node.image.store import ImageStore
from kubewright.local.node.logs import LogWriter
from kubewright.local.node.network import (
    PodNetwork,
    SandboxNamespaces,
)
from kubewright.local.node.probe_handlers import probe_exec, probe_tcp, resolve_port
from kubewright.local.node.process import Process, read_to_end
from kubewright.local.node.resources import ContainerResources
from kubewright.local.node.rootfs import capability_numbers, plan_mounts, remove_tree
from kubewright.local.node.runtime import (
    ContainerConfig,
    ExecResult,
    Exit,
    Outcome,
    PodIdentity,
    ProbeResult,
    RunningContainer,
    Sandbox,
    SecuritySettings,
    StartError,
)
from kubewright.local.node.seccomp import build_filter
from kubewright.local.node.security import capability_names
from kubewright.version import VERSION

_logger = logging.getLogger(__name__)

LAUNCHER = Path(__file__).with_name("launcher.py")
MAX_EXEC_OUTPUT = 1 << 20


class ProcessRuntime:
    """Runs containers as processes of this machine.

    `folder` holds images and each container's mount point; it should be on a real file system and
    belong to this node alone. As an ordinary user all containers are that user to the host: each
    has a user namespace in which it is the one user that it asked to be.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        pod_cidr: str | None = None,
        images: Path | None = None,
        is_root: bool | None = None,
    ) -> None:
        self._folder = folder
        self._clock = clock or SystemClock()
        self._root = os.geteuid() == 0 if is_root is None else is_root
        self._images = ImageStore(images or folder / "images")
        network = IPv4Network(pod_cidr) if pod_cidr else None
        self._network = PodNetwork(is_root=self._root, network=network)
        self._limits = ContainerLimits(self._clock)
        self._sandboxes: dict[str, SandboxNamespaces] = {}
        self._processes: dict[str, Process] = {}
        self._streams: dict[str, ContainerStreams] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The name and version for Node.status.nodeInfo.containerRuntimeVersion."""
        return f"kubewright://{VERSION}"

    @property
    def host_address(self) -> str:
        """The bridge's address, which pods route through."""
        return self._network.gateway

    @property
    def pod_cidr(self) -> str:
        """The network of the pods' addresses."""
        return str(self._network.pool.network)

    @property
    def is_one_uid(self) -> bool:
        """An ordinary user has one uid to give."""
        return not self._root

    @property
    def has_limits(self) -> bool:
        """Tell whether the kernel holds containers to their limits; else memory is watched."""
        return self._limits.are_enforced

    @property
    def network(self) -> PodNetwork:
        """The network that pods hang on."""
        return self._network

    async def start(self) -> None:
        """Make the pod network. Raises ConfigurationError with what to do."""
        await self._network.start()
        await self._limits.start(self._folder)

    async def wait(self) -> None:
        """Wait until the network's holder has ended."""
        await self._network.wait()

    async def stop(self) -> None:
        """Kill all containers and let go of everything."""
        await self._network.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for sandbox in self._sandboxes.values():
            sandbox.close()
        self._sandboxes.clear()
        await self._limits.stop()

    def enter_command(self) -> list[str]:
        """Return the command that runs what follows it in the pod network."""
        return self._network.enter_command()

    async def mount_memory(self, path: Path, size: int | None) -> None:
        """Mount a tmpfs of at most `size` bytes that only containers see."""
        limit = f",size={size}" if size else ""
        await self._network.mount_memory(str(path), f"mode=1777{limit}")

    def inside_path(self, path: Path) -> Path:
        """Return a path through the holder's root, where file systems in memory are mounted."""
        return Path(f"/proc/{self._network.holder_pid}/root{path}")

    async def find_image(self, name: str) -> Image | None:
        """Return an image that is there without a download."""
        return await self._images.find(name)

    async def pull_image(self, name: str) -> Image:
        """Return an image, made from downloaded packages where it is not there."""
        return await self._images.pull(name)

    async def create_sandbox(self, identity: PodIdentity) -> Sandbox:
        """Make a pod's namespaces."""
        namespaces = await self._network.create_sandbox(identity.hostname)
        self._sandboxes[identity.uid] = namespaces
        return Sandbox(identity, namespaces.address)

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Let go of a pod's namespaces and of its address."""
        namespaces = self._sandboxes.pop(sandbox.identity.uid, None)
        if namespaces is not None:
            self._network.remove_sandbox(namespaces)

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> RunningContainer:
        """Start a container in a pod's sandbox."""
        container_id = uuid.uuid4().hex
        root = self._folder / "containers" / container_id
        root.mkdir(parents=True)
        streams = ContainerStreams(stdin=config.stdin, stdin_once=config.stdin_once, tty=config.tty)
        try:
            await self._limits.create(container_id, config.resources)
            group = self._limits.find(container_id)
            process = await self._create(sandbox, config, root, streams.child, group)
        except (StartError, OSError) as error:
            streams.abandon()
            await asyncio.to_thread(remove_tree, root)
            await self._limits.remove(container_id)
            if isinstance(error, StartError):
                raise
            raise StartError(str(error)) from error
        finally:
            streams.release_child()
        started = self._clock.now()
        exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        container = RunningContainer(container_id, config, started, exited)
        self._processes[container_id] = process
        self._streams[container_id] = streams
        self._limits.watch(process, container)
        task = asyncio.create_task(self._supervise(process, container, root, streams))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return container

    async def _supervise(
        self,
        process: Process,
        container: RunningContainer,
        root: Path,
        streams: ContainerStreams,
    ) -> None:
        log = LogWriter(container.config.log, self._clock.now)
        try:
            await streams.copy_to(log)
        except* OSError as errors:
            _logger.error("log %s is cut short: %s", container.config.log, errors.exceptions[0])
        finally:
            log.close()
        code = await process.wait()
        del self._processes[container.id], self._streams[container.id]
        is_oom = await self._limits.remove(container.id)
        await asyncio.to_thread(remove_tree, root)
        code = code if code >= 0 else 128 - code
        container.exited.set_result(Exit(code, self._clock.now(), is_oom))

    async def limit(self, container: RunningContainer, resources: ContainerResources) -> None:
        """Hold a running container to other limits. Raises StartError with the kernel's reason."""
        process = self._processes.get(container.id)
        if process is not None:
            await self._limits.change(process, container, resources)

    async def _create(
        self,
        sandbox: Sandbox,
        config: ContainerConfig,
        root: Path,
        streams: tuple[int, int, int],
        group: ContainerGroup | None,
    ) -> Process:
        namespaces = self._sandboxes.get(sandbox.identity.uid)
        if namespaces is None:
            raise StartError(f"pod {sandbox.identity.key} has no sandbox")
        shared = [namespaces.net, namespaces.uts, namespaces.ipc]
        privileged = config.security.privileged
        launch = {
            "holder": self._network.holder_pid,
            "sandbox": shared,
            "root": str(root),
            "mounts": plan_mounts(config.image, config.mounts, privileged=privileged),
            "read_only_root": config.security.read_only_root,
            "tty": config.tty,
            **self._execution(config, config.argv),
        }
        if config.tty:
            launch["env"].setdefault("TERM", "xterm")
        return await _launch("create", launch, streams[1:], shared, stdin=streams[0], group=group)

    def _execution(self, config: ContainerConfig, argv: Sequence[str]) -> dict[str, Any]:
        security = config.security
        return {
            "argv": list(argv),
            "env": dict(config.env),
            "workdir": config.workdir,
            "uid": security.uid,
            "gid": security.gid,
            "groups": list(security.groups),
            "one_uid": self.is_one_uid,
            "capabilities": capability_numbers(security.capabilities),
            "no_new_privileges": security.no_new_privileges,
            "seccomp": self._filter(security).hex(),
        }

    def _filter(self, security: SecuritySettings) -> bytes:
        if not security.seccomp:
            return b""
        return build_filter(os.uname().machine, capability_names(security.capabilities))

    def signal(self, container: RunningContainer, number: int) -> None:
        """Send a signal to a container's first process."""
        process = self._processes.get(container.id)
        if process is not None:
            process.send(number)

    def pid_of(self, container: RunningContainer) -> int:
        """Return the process id of a container's first process; 0 when it has ended."""
        process = self._processes.get(container.id)
        return process.pid if process is not None else 0

    async def connect(self, address: str, port: int) -> socket.socket:
        """Connect to a pod from inside the pod network. Raises OSError."""
        return await self._network.connect(address, port)

    async def execute(
        self, container: RunningContainer, argv: Sequence[str], timeout: float | None = None
    ) -> ExecResult:
        """Run a command in a container as the container's user."""
        process = self._processes.get(container.id)
        if process is None:
            raise StartError(f"container {container.config.name} is not running")
        config = {"target": process.pid, **self._execution(container.config, argv)}
        reader, writer = os.pipe()
        try:
            group = self._limits.find(container.id)
            command = await _launch("join", config, [writer, writer], group=group)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        try:
            async with asyncio.timeout(timeout):
                output = await read_to_end(reader, MAX_EXEC_OUTPUT)
                code = await command.wait()
        finally:
            command.kill()
        return ExecResult(code if code >= 0 else 128 - code, output.decode(errors="replace"))

    async def open_command(
        self, container: RunningContainer, argv: Sequence[str], *, stdin: bool, tty: bool
    ) -> ContainerCommand:
        """Start a command in a container as the container's user, with pipes or a terminal."""
        target = self._processes.get(container.id)
        if target is None:
            raise StartError(f"container {container.config.name} is not running")
        config = {"target": target.pid, "tty": tty, **self._execution(container.config, argv)}
        if tty:
            config["env"].setdefault("TERM", "xterm")

        async def launch(stdin: int, stdout: int, stderr: int) -> Process:
            group = self._limits.find(container.id)
            return await _launch("join", config, [stdout, stderr], stdin=stdin, group=group)

        return await ContainerCommand.open(launch, stdin=stdin, tty=tty)

    def attach(self, container: RunningContainer, *, stdin: bool) -> Attachment:
        """Attach a client to the streams of a container's own process."""
        streams = self._streams.get(container.id)
        if streams is None:
            raise StartError(f"container {container.config.name} is not running")
        return streams.attach(stdin=stdin)

    async def probe(
        self, container: RunningContainer, sandbox: Sandbox, probe: Object, ports: Mapping[str, int]
    ) -> ProbeResult:
        """Run a probe once: a command in the container, or a connection from the bridge."""
        timeout = float(probe.get("timeoutSeconds") or 1)
        connect = self._network.connect

        async def execute(argv: list[str], timeout: float) -> ExecResult:
            return await self.execute(container, argv, timeout)

        try:
            if action := probe.get("exec"):
                return await probe_exec(action, timeout, execute)
            if action := probe.get("httpGet"):
                port = resolve_port(action["port"], ports)
                return await probe_http(action, sandbox.address, port, timeout, connect)
            if action := probe.get("tcpSocket"):
                port = resolve_port(action["port"], ports)
                host = action.get("host") or sandbox.address
                return await probe_tcp(host, port, timeout, connect)
        except ValueError as error:
            return ProbeResult(Outcome.UNKNOWN, str(error))
        return ProbeResult(Outcome.UNKNOWN, "local pods have exec, httpGet and tcpSocket probes")
