"""The network of a node's pods: one bridge in a namespace of its own, one address per pod.

The namespace is held by the process of `holder.py`, which is also the first process of the pid
namespace that all containers live in, and their parent. When it ends, the kernel removes processes,
interfaces, mounts. It ends with the agent that started it; or, of a network that has a `Keeping`,
waits for another agent that takes the pods over.

Pods reach each other by way of the bridge's address, where packets are forwarded: there they meet
the rules of Services and NetworkPolicies, with the addresses of who sent them and who gets them.

As root, a veth pair joins the network to the host, so that the host reaches pod addresses. As an
ordinary user the holder has a user namespace; the host's interfaces cannot be changed, and what
must reach pods runs inside (`PodNetwork.enter_command`) or uses `PodNetwork.connect`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.local.network.namespace import SocketKind
from kubewright.local.node.descriptor_channel import listen, reach, receive, send
from kubewright.local.node.pod_addresses import (
    POD_NETWORK,
    AddressPool,
    NetworkError,
    choose_network,
    read_host_routes,
)
from kubewright.local.node.process import HeldProcess, Process, run

HOLDER = Path(__file__).with_name("holder.py")
ISOLATED_PYTHON = (sys.executable, "-I", "-S", "-E")
"""A Python that imports nothing of the environment: small, and the same everywhere."""

_logger = logging.getLogger(__name__)

MAX_TRIES = 8
NAMESPACES = ("net", "uts", "ipc")
"""The namespaces of a sandbox, in the order in which their descriptors come."""
TAKE_OVER_SECONDS = 5.0


class NetworkTaken(NetworkError):
    """Another node of this machine has the network; another one can be tried."""


class SandboxNamespaces(msgspec.Struct, frozen=True):
    """The namespaces that the containers of a pod share, held open as descriptors.

    `pause` is the first process of their shared namespace of processes; -1 where each has its own.
    """

    address: str
    net: int
    uts: int
    ipc: int
    pause: int = -1

    @property
    def descriptors(self) -> list[int]:
        """What a container enters."""
        shared = [self.net, self.uts, self.ipc]
        return shared if self.pause < 0 else [*shared, self.pause]

    def close(self) -> None:
        """Let go of the namespaces: the kernel removes them with the last process in them."""
        if self.pause >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pause, signal.SIGKILL)
        for descriptor in self.descriptors:
            os.close(descriptor)


class Keeping(msgspec.Struct, frozen=True):
    """How a network outlives an agent that is killed.

    The holder listens on `socket` for the next agent, and ends after `seconds` without one, or when
    `lifeline` closes: the reading end of a pipe, if there is one.
    """

    socket: Path
    seconds: float
    lifeline: int | None = None


class PodNetwork:
    """The running network of one node. Use `start`, then `stop`.

    `is_root` tells whether the host can reach pods directly. `holder_pid` is the process to enter.
    A `network` that is only a hint gives way to another one where it is taken. `is_taken_over` says
    that the network is that of an earlier agent, with its pods.
    """

    def __init__(
        self,
        *,
        is_root: bool,
        network: IPv4Network | None = None,
        is_hint: bool = False,
        keeping: Keeping | None = None,
    ) -> None:
        self.is_root = is_root
        self.holder_pid = 0
        self.is_taken_over = False
        self._keeping = keeping
        self._preferred = network
        self._is_hint = is_hint
        self._holder: Process | None = None
        self._channel: socket.socket | None = None
        self._lock = asyncio.Lock()
        self._requests = 0
        self.pool = AddressPool(network or POD_NETWORK)

    @property
    def gateway(self) -> str:
        """The bridge's address: where pods reach their node."""
        return self.pool.gateway

    @property
    def cidr(self) -> str:
        """The network of this node's pods."""
        return str(self.pool.network)

    async def start(self) -> None:
        """Start the holder and make the bridge, and as root the way from the host.

        A network that an earlier agent left is taken over.

        Raises:
            ConfigurationError: namespaces or iproute2 cannot be used; the message says what to do.
        """
        if await self._take_over():
            return
        preferred = self._preferred
        for _ in range(MAX_TRIES):
            taken = await read_host_routes() if self.is_root else []
            self.pool = AddressPool(choose_network(taken, preferred, is_hint=self._is_hint))
            try:
                await self._make()
            except NetworkTaken as error:
                # The route is the claim: another cluster that started now was first.
                _logger.warning("%s; another network is taken", error)
                preferred = None
            else:
                return
        raise NetworkError(f"no network of {POD_NETWORK} could be had in {MAX_TRIES} tries")

    async def _make(self) -> None:
        await self._start_holder()
        try:
            await self._request("bridge", str(self.pool.network), self.pool.gateway)
            if self.is_root:
                await self._link_host()
            await self._request("made", self.cidr)
        except BaseException:
            await self.stop()
            raise

    async def _start_holder(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.setblocking(False)
        user = [] if self.is_root else ["--user", "--map-root-user"]
        argv = ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child"]
        argv += ["--mount-proc", "--", *ISOLATED_PYTHON]
        with contextlib.ExitStack() as stack:
            # Named by its descriptor: whoever ends agents by their name does not mean the pods.
            script = stack.enter_context(HOLDER.open("rb")).fileno()
            fds = [stack.enter_context(theirs).fileno()]
            words = [str(fds[0])]
            if self._keeping is not None:
                listener = stack.enter_context(listen(self._keeping.socket))
                lifeline = -1 if self._keeping.lifeline is None else self._keeping.lifeline
                fds += [fd for fd in (listener.fileno(), lifeline) if fd >= 0]
                seconds = str(round(self._keeping.seconds))
                words += [str(listener.fileno()), str(lifeline), seconds]
            self._holder = await Process.start(
                [*argv, f"/dev/fd/{script}", *words], pass_fds=[script, *fds]
            )
        self.attach(ours)
        message, _, pid = await receive(ours)
        if message != b"hello":
            await self.stop()
            raise ConfigurationError(
                "the namespaces of the pod network cannot be made: `unshare --user --net --mount "
                "true` must work; see whether user.max_user_namespaces is above 0"
            )
        self.holder_pid = pid

    async def _take_over(self) -> bool:
        """Take over the network of an earlier agent; return whether there is one."""
        if self._keeping is None or not self._keeping.socket.exists():
            return False
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        channel.setblocking(False)
        try:
            with reach(self._keeping.socket) as path:
                await asyncio.get_running_loop().sock_connect(channel, path)
            async with asyncio.timeout(TAKE_OVER_SECONDS):
                message, _, pid = await receive(channel)
        except (OSError, TimeoutError):
            message, pid = b"", 0
        if message != b"hello":
            channel.close()
            return False
        self.attach(channel)
        self.holder_pid = pid
        self._holder = HeldProcess(pid, self._end_of_another)
        cidr, _ = await self._ask("describe")
        if not cidr:
            # Its agent died before there was a network.
            await self.stop()
            return False
        self.pool = AddressPool(IPv4Network(cidr))
        self.is_taken_over = True
        return True

    async def _end_of_another(self) -> tuple[int, float | None]:
        return 0, None

    def attach(self, channel: socket.socket) -> None:
        """Speak to a holder over this end of a socket pair; `stop` closes it."""
        self._channel = channel

    async def _link_host(self) -> None:
        network = self.pool.network
        name = "kw" + hashlib.sha256(f"{network}{self.holder_pid}".encode()).hexdigest()[:10]
        commands = (
            f"link add {name} type veth peer name uplink netns {self.holder_pid}\n"
            f"addr add {self.pool.host}/32 dev {name}\nlink set {name} up\n"
            f"route add {self.gateway} dev {name} src {self.pool.host}\n"
            f"route add {network} via {self.gateway} dev {name} src {self.pool.host}\n"
        )
        code, output = await run(["ip", "-batch", "-"], stdin=commands.encode())
        if code and "File exists" in output:
            raise NetworkTaken(f"the host has a way to {network} since a moment ago")
        if code:
            raise NetworkError(f"the host cannot be joined to the pod network: {output.strip()}")
        await self._request("uplink", "uplink", self.pool.host)

    async def mount_memory(self, path: str, options: str) -> None:
        """Mount a tmpfs that all containers see, and only they."""
        await self._request("tmpfs", path, options)

    async def create_sandbox(
        self,
        hostname: str,
        *,
        shares_network: bool = False,
        sysctls: Sequence[tuple[str, str]] = (),
    ) -> SandboxNamespaces:
        """Make the namespaces of a pod, with an address on the bridge or in this network itself."""
        settings = [f"{name}={value}" for name, value in sysctls]
        if shares_network:
            shared = await self._request("sandbox", hostname, "", "", "", *settings)
            return SandboxNamespaces(self.gateway, *shared)
        address = self.pool.allocate()
        # An address is one pod's at a time, and so is the name of its port.
        port = f"pod{int(IPv4Address(address)) - int(self.pool.network[0])}"
        try:
            net, uts, ipc = await self._request(
                "sandbox", hostname, port, address, self.gateway, *settings
            )
        except BaseException:
            self.pool.release(address)
            raise
        return SandboxNamespaces(address, net, uts, ipc)

    async def create_pause(self) -> int:
        """Make a namespace of processes for a pod; return a descriptor of its first process."""
        (pause,) = await self._request("pause")
        return pause

    def remove_sandbox(self, sandbox: SandboxNamespaces) -> None:
        """Give up a pod's namespaces and address. Its processes must have ended."""
        sandbox.close()
        self.pool.release(sandbox.address)

    async def launch(self, script: Path, verb: str, descriptors: Sequence[int]) -> None:
        """Let the holder start a launcher on these descriptors, numbered from 0.

        Raises:
            NetworkError: it cannot be started.
        """
        await self._ask("launch", str(script), verb, descriptors=descriptors)

    async def exit_status(self, inner_pid: int) -> tuple[int, float | None]:
        """Return how and when a child of the holder ended.

        The first is its exit status, or minus the number of the signal that ended it; the second is
        seconds since the epoch. What ended with the holder, or unseen, counts as killed.
        """
        try:
            text, _ = await self._ask("status", str(inner_pid))
        except NetworkError:
            return -signal.SIGKILL, None
        status, _, moment = text.partition(" ")
        return int(status), float(moment)

    async def store(self, key: str, descriptors: Sequence[int]) -> None:
        """Let the holder keep descriptors for the agent that comes after this one."""
        if self._keeping is not None:
            await self._ask("store", key, descriptors=descriptors)

    async def fetch(self, key: str) -> list[int]:
        """Return the descriptors that an earlier agent stored; none if there are none."""
        return await self._request("fetch", key)

    async def drop(self, key: str) -> None:
        """Let the holder close descriptors; no error if it is gone."""
        if self._keeping is not None:
            with contextlib.suppress(NetworkError):
                await self._request("drop", key)

    async def kill_others(self, inner_pids: Sequence[int]) -> None:
        """Kill containers that are not among these."""
        await self._request("others", " ".join(map(str, inner_pids)))

    async def connect(self, address: str, port: int) -> socket.socket:
        """Connect to a pod from inside the network: the socket is made there and handed out.

        Raises:
            OSError: the connection is refused or not answered.
        """
        connection = await self.open_socket("tcp")
        try:
            await asyncio.get_running_loop().sock_connect(connection, (address, port))
        except BaseException:
            connection.close()
            raise
        return connection

    async def open_socket(self, kind: SocketKind) -> socket.socket:
        """Make a socket in the network and hand it out; it does not block."""
        (descriptor,) = await self._request("socket", kind)
        opened = socket.socket(fileno=descriptor)
        opened.setblocking(False)
        return opened

    async def add_address(self, address: str) -> None:
        """Make an address one of the network's own: sockets may be bound to it."""
        await self._request("address", address)

    async def open_wire(self) -> socket.socket:
        """Open the way to the pods of other nodes.

        Each packet for them can be received on the socket; what is sent on it arrives as if it had
        come from another node. Packets are Ethernet frames after a virtio_net_hdr.
        """
        (descriptor,) = await self._request("wire")
        wire = socket.socket(fileno=descriptor)
        wire.setblocking(False)
        return wire

    async def add_route(self, network: str) -> None:
        """Let the addresses of another node's pods lead to the wire."""
        await self._request("route", network, self.gateway)

    async def remove_route(self, network: str) -> None:
        """Let addresses lead nowhere again."""
        await self._request("unroute", network)

    def enter_command(self) -> list[str]:
        """Return the command that runs what follows it inside the pod network."""
        user = [] if self.is_root else ["-U", "--preserve-credentials"]
        return ["nsenter", *user, "-n", "-t", str(self.holder_pid)]

    async def wait(self) -> None:
        """Wait until the holder has ended; then every pod is gone too."""
        if self._holder is not None:
            await self._holder.wait()

    async def stop(self) -> None:
        """End the holder and with it everything in the network."""
        if self._holder is not None:
            self._holder.kill()
            await self._holder.wait()
        # Whoever waits for an answer hears that the holder is gone. To close the socket under him
        # would let him wait for ever.
        async with self._lock:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
        if self._keeping is not None:
            self._keeping.socket.unlink(missing_ok=True)

    async def _request(self, *words: str) -> list[int]:
        _, descriptors = await self._ask(*words)
        return descriptors

    async def _ask(self, *words: str, descriptors: Sequence[int] = ()) -> tuple[str, list[int]]:
        """Send a request; return the text and the descriptors of its answer."""
        if self._channel is None:
            raise NetworkError("the pod network is not started")
        async with self._lock:
            self._requests += 1
            number = str(self._requests)
            request = "\0".join([number, *words]).encode()
            try:
                await send(self._channel, request, descriptors)
                text, answered = await self._receive_answer(self._channel, number)
            except (OSError, ValueError) as error:
                raise NetworkError(f"the pod network's holder is gone: {error}") from None
        word, _, rest = text.partition(" ")
        if word != "ok":
            raise NetworkError(text.removeprefix("error ") or "the pod network's holder ended")
        return rest, answered

    async def _receive_answer(self, channel: socket.socket, number: str) -> tuple[str, list[int]]:
        """Receive the answer to a request.

        Whoever asked before may have been cancelled, such as a probe that took too long: the answer
        to that is still to come, and is dropped with its descriptors.
        """
        while True:
            message, descriptors, _ = await receive(channel)
            answered, _, text = message.decode(errors="replace").partition(" ")
            if answered in (number, ""):
                return text, descriptors
            for descriptor in descriptors:
                os.close(descriptor)
