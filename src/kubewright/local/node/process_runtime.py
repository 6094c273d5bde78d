"""Pods as processes in Linux namespaces: no container engine, as root or as an ordinary user."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.resource import Object
from kubewright.client.clock import Clock, SystemClock
from kubewright.local.node.cgroups import ContainerGroup
from kubewright.local.node.container_command import ContainerCommand
from kubewright.local.node.container_launch import (
    Started,
    create_container,
    hold_process,
    join_container,
)
from kubewright.local.node.container_limits import ContainerLimits
from kubewright.local.node.container_streams import Attachment, ContainerStreams
from kubewright.local.node.grpc_probe import probe_grpc
from kubewright.local.node.http_probe import probe_http
from kubewright.local.node.image.image import Image
from kubewright.local.node.image.store import ImageStore
from kubewright.local.node.logs import LogWriter
from kubewright.local.node.network import NAMESPACES, Keeping, PodNetwork, SandboxNamespaces
from kubewright.local.node.orphans import kill_within
from kubewright.local.node.probe_handlers import probe_exec, probe_tcp, resolve_port
from kubewright.local.node.process import HeldProcess, Process, read_to_end
from kubewright.local.node.resources import ContainerResources
from kubewright.local.node.rootfs import capability_numbers, plan_mounts, remove_tree
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
    SecuritySettings,
    StartError,
)
from kubewright.local.node.runtime_records import (
    HeldContainer,
    RuntimeRecords,
    SandboxRecord,
)
from kubewright.local.node.seccomp import build_filter
from kubewright.local.node.security import capability_names
from kubewright.local.node.usage import Usage, read_usage
from kubewright.version import VERSION

_logger = logging.getLogger(__name__)

MAX_EXEC_OUTPUT = 1 << 20


class ProcessRuntime:
    """Runs containers as processes of this machine.

    `folder` holds images and each container's mount point; it should be on a real file system and
    belong to this node alone. With `keeping`, containers outlive an agent that is killed: the next
    runtime of the same folder takes them over. As an ordinary user all containers are that user to
    the host: each has a user namespace in which it is the one user that it asked to be.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        pod_cidr: str | None = None,
        is_any_cidr: bool = False,
        images: Path | None = None,
        is_root: bool | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        self._folder = folder
        self._clock = clock or SystemClock()
        self._root = os.geteuid() == 0 if is_root is None else is_root
        self._images = ImageStore(images or folder / "images")
        network = IPv4Network(pod_cidr) if pod_cidr else None
        self._network = PodNetwork(
            is_root=self._root, network=network, is_hint=is_any_cidr, keeping=keeping
        )
        self._records = RuntimeRecords(folder / "runtime") if keeping else None
        self._adopted: dict[str, AdoptedPod] = {}
        self._limits = ContainerLimits(self._clock)
        self._sandboxes: dict[str, SandboxNamespaces] = {}
        self._processes: dict[str, Process] = {}
        self._held: dict[str, HeldContainer] = {}
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
        is_taken_over = self._network.is_taken_over
        await self._limits.start(self._folder, is_taken_over=is_taken_over)
        if self._records is not None and is_taken_over:
            await self._take_over(self._records)
        elif self._records is not None:
            await asyncio.to_thread(self._records.clear)
        await asyncio.to_thread(self._drop_roots)

    async def _take_over(self, records: RuntimeRecords) -> None:
        """Go on where an earlier agent ended: with its sandboxes, and the containers in them."""
        for sandbox in await asyncio.to_thread(records.sandboxes):
            uid = sandbox.identity.uid
            descriptors = await self._network.fetch(f"sandbox/{uid}")
            if len(descriptors) >= len(NAMESPACES):
                self._sandboxes[uid] = SandboxNamespaces(sandbox.address, *descriptors)
                self._network.pool.take(sandbox.address)
                self._adopted[uid] = AdoptedPod(Sandbox(sandbox.identity, sandbox.address), [])
        containers = await asyncio.to_thread(records.containers)
        held = [container for container in containers if container.pod in self._adopted]
        await self._network.kill_others([entry.inner_pid for entry in held if entry.exit is None])
        for entry in held:
            self._adopted[entry.pod].containers.append(await self._take_over_container(entry))

    async def _take_over_container(self, held: HeldContainer) -> RunningContainer:
        exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        config = held.config
        container = RunningContainer(held.id, config, held.started_at, exited)
        if held.exit is not None:
            exited.set_result(held.exit)
            return container
        # Its number may be another process's by now, if it ended without an agent to see it.
        pid = held.pid if await asyncio.to_thread(is_same_process, held) else 0
        process = hold_process(self._network, pid, held.inner_pid)
        taken = await self._network.fetch(f"streams/{held.id}")
        streams = ContainerStreams(
            stdin=config.stdin, stdin_once=config.stdin_once, tty=config.tty, taken=taken
        )
        await self._limits.adopt(process, container)
        self._watch_over(process, container, streams, held)
        return container

    def _drop_roots(self) -> None:
        """Remove the file systems of containers that no longer run, from an agent before this."""
        folder = self._folder / "containers"
        for root in folder.iterdir() if folder.is_dir() else ():
            if root.name not in self._processes:
                remove_tree(root)

    def adopt(self, pod: Object) -> AdoptedPod | None:
        """Take over a pod that an earlier agent of the node has left."""
        return self._adopted.pop(pod["metadata"]["uid"], None)

    async def drop_others(self, uids: Collection[str]) -> None:
        """End the containers of pods that are gone, and let go of their sandboxes."""
        for uid in self._adopted.keys() - uids:
            pod = self._adopted.pop(uid)
            for container in pod.containers:
                self.signal(container, signal.SIGKILL)
            await asyncio.gather(*(asyncio.shield(c.exited) for c in pod.containers))
            await self.remove_sandbox(pod.sandbox)

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
        if self._records is not None:
            await asyncio.to_thread(self._records.clear)

    def enter_command(self) -> list[str]:
        """Return the command that runs what follows it in the pod network."""
        return self._network.enter_command()

    async def mount_memory(self, path: Path, size: int | None) -> None:
        """Mount a tmpfs of at most `size` bytes that only containers see, unless it is there."""
        if await asyncio.to_thread(self.inside_path(path).is_mount):
            return
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
        namespaces = await self._network.create_sandbox(
            identity.hostname, shares_network=identity.shares_network, sysctls=identity.sysctls
        )
        if identity.shares_processes:
            pause = await self._network.create_pause()
            namespaces = msgspec.structs.replace(namespaces, pause=pause)
        self._sandboxes[identity.uid] = namespaces
        if self._records is not None:
            await self._network.store(f"sandbox/{identity.uid}", namespaces.descriptors)
            record = SandboxRecord(identity, namespaces.address)
            await asyncio.to_thread(self._records.write_sandbox, record)
        return Sandbox(identity, namespaces.address)

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Let go of a pod's namespaces and of its address."""
        uid = sandbox.identity.uid
        namespaces = self._sandboxes.pop(uid, None)
        if namespaces is None:
            return
        self._network.remove_sandbox(namespaces)
        if self._records is not None:
            await self._network.drop(f"sandbox/{uid}")
            await asyncio.to_thread(self._records.remove_pod, uid)

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> RunningContainer:
        """Start a container in a pod's sandbox."""
        container_id = uuid.uuid4().hex
        root = self._folder / "containers" / container_id
        root.mkdir(parents=True)
        streams = ContainerStreams(stdin=config.stdin, stdin_once=config.stdin_once, tty=config.tty)
        try:
            await self._limits.create(container_id, config.resources)
            group = self._limits.find(container_id)
            launched = await self._create(sandbox, config, root, streams.child, group)
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
        uid, pid = sandbox.identity.uid, launched.process.pid
        held = HeldContainer(
            container_id, uid, config, started, pid, launched.inner_pid, mounts=launched.mounts
        )
        if self._records is not None:
            await self._network.store(f"streams/{container_id}", streams.kept)
            await asyncio.to_thread(self._records.write_started, held)
        self._limits.watch(launched.process, container)
        self._watch_over(launched.process, container, streams, held)
        return container

    def _watch_over(
        self,
        process: HeldProcess,
        container: RunningContainer,
        streams: ContainerStreams,
        held: HeldContainer,
    ) -> None:
        self._processes[container.id] = process
        self._held[container.id] = held
        self._streams[container.id] = streams
        task = asyncio.create_task(self._supervise(process, container, streams, held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _supervise(
        self,
        process: HeldProcess,
        container: RunningContainer,
        streams: ContainerStreams,
        held: HeldContainer,
    ) -> None:
        log = LogWriter(container.config.log, self._clock.now)
        ended_first = asyncio.create_task(self._end_orphans(process, container))
        try:
            await streams.copy_to(log)
        except* OSError as errors:
            _logger.error("log %s is cut short: %s", container.config.log, errors.exceptions[0])
        finally:
            log.close()
        code = await process.wait()
        await ended_first
        del self._processes[container.id], self._streams[container.id], self._held[container.id]
        is_oom = await self._limits.remove(container.id)
        moment = process.ended_at
        now = self._clock.now() if moment is None else datetime.fromtimestamp(moment, UTC)
        ended = Exit(code if code >= 0 else 128 - code, now, is_oom)
        if self._records is not None:
            record = msgspec.structs.replace(held, exit=ended)
            await asyncio.to_thread(self._records.write_container, record)
            await self._network.drop(f"streams/{container.id}")
        await asyncio.to_thread(remove_tree, self._folder / "containers" / container.id)
        container.exited.set_result(ended)

    async def _end_orphans(self, process: Process, container: RunningContainer) -> None:
        """End what a container leaves among the processes of its pod when its first one has ended.

        Of a namespace of its own the kernel ends them; here they would hold its output open.
        """
        held = self._held[container.id]
        namespaces = self._sandboxes.get(held.pod)
        if namespaces is None or namespaces.pause < 0:
            return
        await process.wait()
        await asyncio.to_thread(kill_within, held.mounts)

    def layer(self, container: RunningContainer) -> Path:
        """Return the upper layer of a container; one whose layer is in memory has none."""
        return self._folder / "containers" / container.id / "upper"

    async def limit(self, container: RunningContainer, resources: ContainerResources) -> None:
        """Hold a running container to other limits. Raises StartError with the kernel's reason."""
        process = self._processes.get(container.id)
        if process is not None:
            await self._limits.change(process, container, resources)

    async def measure(self, container: RunningContainer, pod: Object) -> Usage | None:
        """Measure what a container uses; None when it has ended."""
        process = self._processes.get(container.id)
        if process is None:
            return None
        group = self._limits.find(container.id)
        return await asyncio.to_thread(read_usage, process.pid, group)

    async def _create(
        self,
        sandbox: Sandbox,
        config: ContainerConfig,
        root: Path,
        streams: tuple[int, int, int],
        group: ContainerGroup | None,
    ) -> Started:
        namespaces = self._sandboxes.get(sandbox.identity.uid)
        if namespaces is None:
            raise StartError(f"pod {sandbox.identity.key} has no sandbox")
        shared = namespaces.descriptors
        privileged = config.security.privileged
        launch = {
            "sandbox": shared,
            "beside": self._find_target(config),
            "root": str(root),
            "mounts": plan_mounts(config.image, config.mounts, privileged=privileged),
            "read_only_root": config.security.read_only_root,
            "tty": config.tty,
            **self._execution(config, config.argv),
        }
        if config.tty:
            launch["env"].setdefault("TERM", "xterm")
        return await create_container(self._network, launch, streams, group=group)

    def _find_target(self, config: ContainerConfig) -> int:
        """Return the process whose namespace of processes a container joins; 0 for one of its own.

        Raises:
            StartError: it has ended.
        """
        if not config.beside:
            return 0
        if config.beside not in self._held:
            raise StartError("the target container is not running", "ContainerCannotRun")
        return self._held[config.beside].inner_pid

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
        held = self._held.get(container.id)
        if held is None:
            raise StartError(f"container {container.config.name} is not running")
        config = {"target": held.inner_pid, **self._execution(container.config, argv)}
        reader, writer = os.pipe()
        try:
            group = self._limits.find(container.id)
            outputs = [writer, writer]
            command = await join_container(self._network, config, outputs, group=group)
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
        target = self._held.get(container.id)
        if target is None:
            raise StartError(f"container {container.config.name} is not running")
        config = {"target": target.inner_pid, "tty": tty, **self._execution(container.config, argv)}
        if tty:
            config["env"].setdefault("TERM", "xterm")

        async def launch(stdin: int, stdout: int, stderr: int) -> Process:
            group = self._limits.find(container.id)
            outputs = [stdout, stderr]
            return await join_container(self._network, config, outputs, stdin=stdin, group=group)

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
        if action := probe.get("grpc"):
            service = action.get("service") or ""
            return await probe_grpc(sandbox.address, action["port"], service, timeout, connect)
        key = sandbox.identity.key
        name = f"{key.name}_{key.namespace}({sandbox.identity.uid}):{container.config.name}"
        return ProbeResult(Outcome.UNKNOWN, f"missing probe handler for {name}")


def is_same_process(held: HeldContainer) -> bool:
    """Tell whether the process that a container began as is still the one of that number."""
    try:
        text = Path(f"/proc/{held.pid}/status").read_text()
    except OSError:
        return False
    numbers = next(line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:"))
    return numbers[-2:-1] == [str(held.inner_pid)]
