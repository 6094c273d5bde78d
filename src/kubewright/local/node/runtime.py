"""What the node asks of whatever runs its pods: the seam between the agent and processes."""

from __future__ import annotations

import asyncio
import enum
import socket
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from kubewright.api.errors import KubewrightError
from kubewright.api.resource import NamespacedName, Object
from kubewright.local.network.namespace import NetworkNamespace
from kubewright.local.node.container_command import ContainerCommand
from kubewright.local.node.container_streams import Streams
from kubewright.local.node.image.image import Image
from kubewright.local.node.resources import ContainerResources
from kubewright.local.node.usage import Usage

DEFAULT_CAPABILITIES = 0xA80425FB
"""What container runtimes leave to a container: CHOWN, NET_BIND_SERVICE and twelve others."""


class StartError(KubewrightError):
    """A container could not be started. `reason` becomes that of its terminated state."""

    def __init__(self, message: str, reason: str = "StartError") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class Outcome(enum.Enum):
    """What one run of a probe found."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"
    """The probe itself could not be run; neither threshold counts it."""


class ProbeResult(msgspec.Struct, frozen=True):
    """The outcome of a probe, and what to say of it; `warning` is said also of a success.

    `has_answer` says that there was an HTTP response, whatever its status.
    """

    outcome: Outcome
    output: str = ""
    warning: str = ""
    has_answer: bool = False


class ExecResult(msgspec.Struct, frozen=True):
    """The exit status of a command in a container and what it wrote to either output."""

    exit_code: int
    output: str


class PodIdentity(msgspec.Struct, frozen=True):
    """The pod that a sandbox is for.

    `shares_network` gives it the network of its node, and so its address; with `shares_processes`
    its containers see each other's processes. `sysctls` are settings of the kernel for its
    namespaces.
    """

    key: NamespacedName
    uid: str
    hostname: str
    shares_network: bool = False
    shares_processes: bool = False
    sysctls: tuple[tuple[str, str], ...] = ()


class Mount(msgspec.Struct, frozen=True):
    """A file or folder of the host shown in a container; or a tmpfs, when `source` is None.

    `is_recursive` makes what is mounted below it read-only too.
    """

    target: str
    source: Path | None
    read_only: bool = False
    options: str = ""
    is_recursive: bool = False


class SecuritySettings(msgspec.Struct, frozen=True):
    """Who a container runs as, and what it may."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    capabilities: int = DEFAULT_CAPABILITIES
    no_new_privileges: bool = False
    read_only_root: bool = False
    privileged: bool = False
    seccomp: bool = False
    """The runtime's default seccomp profile applies."""


class ContainerConfig(msgspec.Struct, frozen=True):
    """All that is needed to start a container.

    `log` is the file to write in CRI format. `stdin` keeps its input open for clients that attach,
    with `stdin_once` only until the first of them has ended its own; with `tty` all streams are one
    terminal. `is_finite` says that the container is meant to end by itself, as those of Jobs and
    init containers are. `beside` is the id of another container, whose processes this one sees and
    with which it ends.
    """

    name: str
    attempt: int
    image: Image
    argv: Sequence[str]
    env: Mapping[str, str]
    workdir: str
    security: SecuritySettings
    log: Path
    mounts: Sequence[Mount] = ()
    is_finite: bool = False
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    beside: str = ""
    resources: ContainerResources = ContainerResources()


class Exit(msgspec.Struct, frozen=True):
    """How a container ended; for a killed one `exit_code` is 128 plus the signal's number.

    `is_oom` says that a process of it was killed for want of memory.
    """

    exit_code: int
    finished_at: datetime
    is_oom: bool = False


class RunningContainer(msgspec.Struct):
    """A started container. `exited` is done when it has ended and its log is complete."""

    id: str
    config: ContainerConfig
    started_at: datetime
    exited: asyncio.Future[Exit]


class Sandbox(msgspec.Struct, frozen=True):
    """A pod's namespaces: it has an address as long as the sandbox is there."""

    identity: PodIdentity
    address: str


class AdoptedPod(msgspec.Struct, frozen=True):
    """A pod that an earlier agent of the node has left: its sandbox, and its containers.

    Containers are in the order in which they started; those that have ended meanwhile are `exited`.
    """

    sandbox: Sandbox
    containers: list[RunningContainer]


class PodRuntime(Protocol):
    """Runs the containers of pods. Methods may be called at the same time for different pods."""

    @property
    def name(self) -> str:
        """The name and version that Node.status.nodeInfo shows."""
        ...

    @property
    def host_address(self) -> str:
        """The address by which pods reach the node; becomes the pods' hostIP."""
        ...

    @property
    def pod_cidr(self) -> str:
        """The network of the pods' addresses; "" before `start`."""
        ...

    @property
    def is_one_uid(self) -> bool:
        """Tell whether all containers are one user of the host, whatever user they ask for."""
        ...

    @property
    def has_limits(self) -> bool:
        """Tell whether the kernel holds containers to their limits of cpu and memory."""
        ...

    @property
    def network(self) -> NetworkNamespace | None:
        """The network that pods hang on; None where they are simulated."""
        ...

    async def start(self) -> None:
        """Make ready to run pods."""
        ...

    async def wait(self) -> None:
        """Wait until the runtime can no longer run pods."""
        ...

    async def stop(self) -> None:
        """Kill everything that runs and let go of all resources."""
        ...

    def enter_command(self) -> list[str]:
        """Return the command that runs what follows it where pods can be reached."""
        ...

    async def mount_memory(self, path: Path, size: int | None) -> None:
        """Mount a file system in memory, of at most `size` bytes, where containers see it."""
        ...

    def inside_path(self, path: Path) -> Path:
        """Return the path by which the agent reaches what containers see at a path of the host."""
        ...

    async def find_image(self, name: str) -> Image | None:
        """Return an image that is already there. Raises InvalidReference."""
        ...

    async def pull_image(self, name: str) -> Image:
        """Return an image, fetching what is missing. Raises InvalidReference and ImageError."""
        ...

    def adopt(self, pod: Object) -> AdoptedPod | None:
        """Take over a pod that an earlier agent of the node has left; None if it is not there."""
        ...

    async def drop_others(self, uids: Collection[str]) -> None:
        """End what an earlier agent has left of other pods than these."""
        ...

    async def create_sandbox(self, identity: PodIdentity) -> Sandbox:
        """Make a pod's namespaces with an address."""
        ...

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Let go of a pod's namespaces. Its containers must have ended."""
        ...

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> RunningContainer:
        """Start a container. Raises StartError."""
        ...

    def layer(self, container: RunningContainer) -> Path:
        """Return the folder with what a container wrote beside its volumes; it may be missing."""
        ...

    async def limit(self, container: RunningContainer, resources: ContainerResources) -> None:
        """Hold a running container to other limits. Raises StartError with the kernel's reason."""
        ...

    async def measure(self, container: RunningContainer, pod: Object) -> Usage | None:
        """Measure what a container of a pod uses; None when it has ended."""
        ...

    def signal(self, container: RunningContainer, number: int) -> None:
        """Send a signal to the first process of a container; no error if it has ended."""
        ...

    async def execute(
        self, container: RunningContainer, argv: Sequence[str], timeout: float | None = None
    ) -> ExecResult:
        """Run a command in a container. Raises StartError; TimeoutError after `timeout` seconds."""
        ...

    async def open_command(
        self, container: RunningContainer, argv: Sequence[str], *, stdin: bool, tty: bool
    ) -> ContainerCommand:
        """Start a command in a container with its streams. Raises StartError."""
        ...

    def attach(self, container: RunningContainer, *, stdin: bool) -> Streams:
        """Attach a client to a container's own streams. Raises StartError."""
        ...

    async def connect(self, address: str, port: int) -> socket.socket:
        """Connect to a pod over its network. Raises OSError."""
        ...

    async def probe(
        self, container: RunningContainer, sandbox: Sandbox, probe: Object, ports: Mapping[str, int]
    ) -> ProbeResult:
        """Run a probe once. `ports` are the container's named ports."""
        ...
