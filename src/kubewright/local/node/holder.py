"""The process that holds a node's network: run as a script, first process of its namespaces.

It is started by `network.PodNetwork` inside fresh network, mount and pid namespaces (and a user
namespace, for an ordinary user). It is the parent of all containers, keeps what must outlive the
agent, and answers one request at a time on the socket it was given:

    bridge CIDR GATEWAY            make the bridge that the pods hang on
    uplink INTERFACE ADDRESS       use an interface that was moved here as the way to the host
    sandbox HOSTNAME PORT ADDRESS GATEWAY SYSCTL=VALUE...
                                   make a pod's namespaces, in this network itself if PORT is "";
                                   answers with net, uts, ipc
    pause                          make a namespace of processes; answers with its first process
    socket KIND                    make a socket in this network; answers with it
    address ADDRESS                make an address one of this network's own
    wire                           make the way to other nodes; answers with a packet socket
    route CIDR GATEWAY             let the addresses of another node's pods lead to the wire
    unroute CIDR                   let them no longer
    tmpfs PATH OPTIONS             mount a tmpfs that only this mount namespace and its heirs see

    launch SCRIPT VERB             start the launcher (`launcher.py`) on the descriptors sent
    status PID                     tell how and when a child of this process ended
    store KEY / fetch KEY / drop KEY    keep descriptors that were sent, give them back, close them
    made CIDR / describe           note that the network is complete; tell which one, or ""
    others PID...                  kill the containers that are not among these

The words of a request are separated by NUL; `others` has them separated by spaces. Answers are `ok`
with a text and descriptors (SCM_RIGHTS), or `error TEXT`. Everything that runs in the pods lives in
this process's pid namespace: when it ends, the kernel takes all processes, interfaces and mounts
with it. It ends when its agent says so, or is gone and no other one connects in time to take the
pods over; and when the lifeline closes, which whoever started the node holds open.

    holder.py CHANNEL [LISTENER LIFELINE SECONDS]    LIFELINE is -1 where there is none

The script imports no package and few modules: it stays for the life of the node.
"""

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import resource
import select
import signal
import socket
import sys
import time
from types import ModuleType

CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x04000000, 0x08000000, 0x40000000
CLONE_NEWPID, PR_SET_NAME = 0x20000000, 15
PAUSE = b"pause"
MAX_DESCRIPTORS = 4096
BRIDGE = "pods"
BRIDGE_ADDRESS = "02:6b:77:00:00:02"
"""Else a bridge takes the lowest address of its ports: with each pod that comes or goes the others
could lose their gateway, until they ask again where it is."""
MAX_REQUEST = 1 << 16
MAX_SENT, FIRST_FREE, CHANNEL = 16, 64, 3
MAX_ENDS = 4096
OWN_TABLE = 100
NETLINK_NETFILTER = 12
SOCKETS = {
    "tcp": (socket.AF_INET, socket.SOCK_STREAM, 0),
    "udp": (socket.AF_INET, socket.SOCK_DGRAM, 0),
    "netfilter": (socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER),
}
SETTINGS = {
    "ipv4/ip_forward": "1",
    # The sender of a packet that goes back to the bridge cannot reach its target in another way.
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    # A Service without endpoints refuses each connection, however many are tried.
    "ipv4/icmp_ratelimit": "0",
}
WIRE, WIRE_END = "nodes", "nodes-end"
WIRE_ADDRESS = "02:6b:77:00:00:01"
"""The same on every node: what one node sends is then addressed to the next."""
ETH_P_ALL, SOL_PACKET, PACKET_IGNORE_OUTGOING, PACKET_VNET_HDR = 3, 263, 23, 15

_libc = ctypes.CDLL(None, use_errno=True)


class RequestError(Exception):
    """A request could not be fulfilled; the text goes back to the agent."""


def run_ip(commands: str) -> None:
    """Run iproute2's `ip` with a batch of commands in the caller's network namespace."""
    reader, writer = os.pipe()
    errors_reader, errors_writer = os.pipe()
    os.write(writer, commands.encode())
    os.close(writer)
    actions = [
        (os.POSIX_SPAWN_DUP2, reader, 0),
        (os.POSIX_SPAWN_DUP2, errors_writer, 1),
        (os.POSIX_SPAWN_DUP2, errors_writer, 2),
    ]
    pid = os.posix_spawnp("ip", ["ip", "-batch", "-"], os.environ, file_actions=actions)
    os.close(reader)
    os.close(errors_writer)
    with os.fdopen(errors_reader, "rb") as errors:
        text = errors.read().decode(errors="replace").strip()
    _, status = os.waitpid(pid, 0)
    if status:
        raise RequestError(f"ip refused {commands.strip()!r}: {text}")


def make_bridge(cidr: str, gateway: str) -> None:
    """Make the bridge with the gateway's address, and forward what pods send to one another.

    Pods are apart on the bridge and reach each other by way of the gateway, so that every packet
    passes the rules of Services and NetworkPolicies.
    """
    for name, value in SETTINGS.items():
        with open(f"/proc/sys/net/{name}", "w") as setting:
            setting.write(value)
    # Else rules are met on the bridge already, which passes on by itself what they lead elsewhere.
    with (
        contextlib.suppress(FileNotFoundError),
        open("/proc/sys/net/bridge/bridge-nf-call-iptables", "w") as setting,
    ):
        setting.write("0")
    prefix = cidr.partition("/")[2]
    run_ip(
        f"link set lo up\nlink add {BRIDGE} address {BRIDGE_ADDRESS} "
        "type bridge forward_delay 0 stp_state 0\n"
        f"addr add {gateway}/{prefix} dev {BRIDGE}\nlink set {BRIDGE} up\n"
        # Services have no place, but who connects from here needs a way to be led elsewhere.
        f"rule add pref 32800 iif lo lookup {OWN_TABLE}\n"
        f"route add default dev {BRIDGE} table {OWN_TABLE}\n"
    )


def make_wire() -> int:
    """Make the way to the pods of other nodes; what is sent there comes out of the packet socket.

    Packets carry a header that tells what is left to do for them (virtio_net_hdr): checksums and
    segments are made once, by whoever takes them off the last node.
    """
    run_ip(
        f"link add {WIRE} address {WIRE_ADDRESS} type veth peer name {WIRE_END}\n"
        f"link set {WIRE} arp off\nlink set {WIRE_END} arp off\n"
        f"link set {WIRE} up\nlink set {WIRE_END} up\n"
    )
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    wire.bind((WIRE_END, ETH_P_ALL))
    return wire.detach()


def make_sandbox(
    hostname: str, port: str, address: str, gateway: str, sysctls: list[str]
) -> list[int]:
    """Make the namespaces of a pod; `port` is this end of the veth pair to the bridge."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve_sandbox(theirs, hostname, address, gateway, sysctls)
    theirs.close()
    try:
        _expect(ours, b"unshared")
        if port:
            run_ip(
                f"link add {port} type veth peer name eth0 netns {pid}\n"
                f"link set {port} master {BRIDGE}\n"
                f"link set {port} type bridge_slave isolated on\nlink set {port} up\n"
            )
        ours.send(b"linked")
        return _expect(ours, b"ready")
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _serve_sandbox(
    channel: socket.socket, hostname: str, address: str, gateway: str, sysctls: list[str]
) -> None:
    """Be the short-lived process that makes and configures a sandbox from inside. Never returns."""
    try:
        network = CLONE_NEWNET if address else 0
        if _libc.unshare(network | CLONE_NEWUTS | CLONE_NEWIPC):
            raise RequestError(f"unshare: {os.strerror(ctypes.get_errno())}")
        socket.sethostname(hostname)
        channel.send(b"unshared")
        if channel.recv(16) != b"linked":
            os._exit(1)
        if address:
            _configure_network(address, gateway)
        for setting in sysctls:
            _set_kernel(*setting.split("=", 1))
        names = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in ("net", "uts", "ipc")]
        socket.send_fds(channel, [b"ready"], names)
    except (OSError, RequestError) as error:
        channel.send(f"error {error}".encode())
    os._exit(0)


def _configure_network(address: str, gateway: str) -> None:
    run_ip(
        f"link set lo up\naddr add {address}/32 dev eth0\nlink set eth0 up\n"
        f"route add {gateway} dev eth0\nroute add default via {gateway}\n"
    )
    # As container runtimes do: a pod may listen on port 80 without being root. A read-only
    # /proc/sys, as some containers have, leaves the kernel's default.
    with contextlib.suppress(RequestError):
        _set_kernel("net.ipv4.ip_unprivileged_port_start", "0")


def _set_kernel(name: str, value: str) -> None:
    try:
        with open("/proc/sys/" + name.replace(".", "/"), "w") as file:
            file.write(value)
    except OSError as error:
        raise RequestError(f"sysctl {name}: {error.strerror}") from error


def _expect(channel: socket.socket, word: bytes) -> list[int]:
    message, descriptors, _, _ = socket.recv_fds(channel, 4096, 3)
    if message != word:
        raise RequestError(message.decode(errors="replace").removeprefix("error "))
    return descriptors


def mount_memory(path: str, options: str) -> None:
    """Mount a tmpfs."""
    if _libc.mount(b"tmpfs", path.encode(), b"tmpfs", ctypes.c_ulong(6), options.encode()):
        raise RequestError(f"mount tmpfs at {path}: {os.strerror(ctypes.get_errno())}")


class Launchers:
    """Starts launchers as copies of this process: a new Python would take many times as long."""

    def __init__(self) -> None:
        self._module: ModuleType | None = None
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        _, most = self._limits
        # What is kept for pods may be many descriptors; the pods themselves have the usual limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def load(self, script: str) -> ModuleType:
        """Load the launcher, once."""
        if self._module is None:
            spec = importlib.util.spec_from_file_location("launcher", script)
            if spec is None or spec.loader is None:
                raise RequestError(f"{script} cannot be loaded")
            self._module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self._module)
        return self._module

    def start(self, script: str, verb: str, sent: list[int]) -> None:
        """Start a launcher: it has the descriptors from 0 on, first the standard streams."""
        module = self.load(script)
        if os.fork():
            return
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)
            # Moved out of the way first, so that none is overwritten before it is at its place.
            moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for fd in sent]
            for number, descriptor in enumerate(moved):
                os.dup2(descriptor, number)
            os.closerange(len(moved), FIRST_FREE + len(moved))
            module.launch(verb, CHANNEL)
        finally:
            os._exit(1)


class Keeper:
    """What outlives an agent: descriptors, how processes ended, and what the network is."""

    def __init__(self) -> None:
        self.network = ""
        self.launchers = Launchers()
        self._stored: dict[str, list[int]] = {}
        self._ends: dict[int, tuple[int, float]] = {}

    def store(self, key: str, sent: list[int]) -> None:
        """Keep copies of descriptors."""
        self.drop(key)
        self._stored[key] = [os.dup(descriptor) for descriptor in sent]

    def fetch(self, key: str) -> list[int]:
        """Return copies of what is kept."""
        return [os.dup(descriptor) for descriptor in self._stored.get(key, ())]

    def drop(self, key: str) -> None:
        """Close what is kept."""
        for descriptor in self._stored.pop(key, ()):
            os.close(descriptor)

    def wire(self) -> list[int]:
        """Make the way to other nodes, or return the one that an earlier agent asked for."""
        if "wire" not in self._stored:
            made = [make_wire()]
            self.store("wire", made)
            return made
        return self.fetch("wire")

    def reap(self) -> None:
        """Collect the children that have ended, also those whose parent ended before them."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self._ends.pop(pid, None)
                self._ends[pid] = status, time.time()
                if len(self._ends) > MAX_ENDS:
                    del self._ends[next(iter(self._ends))]

    def status(self, pid: int) -> str:
        """Return how and when a process ended, once."""
        self.reap()
        if pid not in self._ends:
            raise RequestError(f"process {pid} has not ended, or is unknown")
        status, moment = self._ends.pop(pid)
        return f"{os.waitstatus_to_exitcode(status)} {moment}"


def make_pause() -> int:
    """Make a namespace of processes for a pod; answer with a descriptor of its first process.

    That one becomes a child of this process, and waits for orphans until it is killed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _fork_pause(writer)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text.isdigit():
        raise RequestError(text or "the namespace of processes was not made")
    return os.pidfd_open(int(text))


def _fork_pause(writer: int) -> None:
    """Be the short-lived process that makes the namespace. Never returns."""
    if _libc.unshare(CLONE_NEWPID):
        os.write(writer, f"unshare: {os.strerror(ctypes.get_errno())}".encode())
        os._exit(1)
    pid = os.fork()
    if pid:
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.closerange(3, MAX_DESCRIPTORS)
    os.setsid()
    _libc.prctl(PR_SET_NAME, PAUSE, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        _reap_orphans()
        signal.sigwait({signal.SIGCHLD})


def _reap_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_others(known: set[int]) -> None:
    """Kill the first processes of containers that are not known: an agent died as they started."""
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in known:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/status") as file:
            fields = dict(line.rstrip("\n").split(":", 1) for line in file)
            if fields["Name"].strip() == PAUSE.decode():
                continue
            if fields["NSpid"].split()[1:] == ["1"] and fields["PPid"].strip() == "1":
                os.kill(int(name), signal.SIGKILL)


def answer(keeper: Keeper, words: list[str], sent: list[int]) -> tuple[str, list[int]]:
    """Fulfil one request; return the text and the descriptors of the answer."""
    match words:
        case ["launch", script, verb]:
            keeper.launchers.start(script, verb, sent)
        case ["status", pid]:
            return keeper.status(int(pid)), []
        case ["store", key]:
            keeper.store(key, sent)
        case ["fetch", key]:
            return "", keeper.fetch(key)
        case ["drop", key]:
            keeper.drop(key)
        case ["describe"]:
            return keeper.network, []
        case ["pause"]:
            return "", [make_pause()]
        case ["others", known]:
            kill_others(set(map(int, known.split())))
        case ["wire"]:
            return "", keeper.wire()
        case ["made", cidr]:
            keeper.network = cidr
        case _:
            return "", change_network(words)
    return "", []


def change_network(words: list[str]) -> list[int]:
    """Fulfil a request about the network; return the descriptors of the answer."""
    match words:
        case ["bridge", cidr, gateway]:
            make_bridge(cidr, gateway)
        case ["uplink", interface, address]:
            run_ip(f"link set {interface} up\nroute add {address} dev {interface}\n")
        case ["address", address]:
            run_ip(f"addr replace {address}/32 dev lo\n")
        case ["route", cidr, gateway]:
            run_ip(f"route replace {cidr} dev {WIRE} src {gateway}\n")
        case ["unroute", cidr]:
            run_ip(f"route del {cidr} dev {WIRE}\n")
        case ["sandbox", hostname, port, address, gateway, *sysctls]:
            return make_sandbox(hostname, port, address, gateway, sysctls)
        case ["tmpfs", path, options]:
            mount_memory(path, options)
        case ["socket", kind] if kind in SOCKETS:
            return [socket.socket(*SOCKETS[kind]).detach()]
        case _:
            raise RequestError(f"unknown request {' '.join(words)!r}")
    return []


class Server:
    """Answers agents, one after the other, until there is to be none."""

    def __init__(self, channel: socket.socket, listener: int, lifeline: int, patience: float):
        self._keeper = Keeper()
        self._channel: socket.socket | None = channel
        self._listener = socket.socket(fileno=listener) if listener >= 0 else None
        self._lifeline = lifeline
        self._patience = patience
        self._alone_since = 0.0
        self._waker, woken = os.pipe()
        for descriptor in (self._waker, woken):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def serve(self) -> None:
        """Answer requests; return when the network is to end."""
        while not self._is_over():
            sources: list[socket.socket | int] = [self._waker]
            sources += [self._channel] if self._channel else []
            sources += [self._listener] if self._listener else []
            sources += [self._lifeline] if self._lifeline >= 0 else []
            timeout = None if self._channel else self._patience
            ready, _, _ = select.select(sources, [], [], timeout)
            if self._lifeline in ready:
                return
            if self._waker in ready:
                os.read(self._waker, MAX_REQUEST)
                self._keeper.reap()
            if self._channel in ready:
                self._take_request(self._channel)
            if self._listener is not None and self._listener in ready:
                self._greet(self._listener.accept()[0])

    def _is_over(self) -> bool:
        if self._channel is not None:
            return False
        return self._listener is None or time.monotonic() - self._alone_since >= self._patience

    def _greet(self, channel: socket.socket) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = channel
        with contextlib.suppress(OSError):
            channel.send(b"hello")

    def _take_request(self, channel: socket.socket) -> None:
        try:
            flags = socket.MSG_CMSG_CLOEXEC
            request, sent, _, _ = socket.recv_fds(channel, MAX_REQUEST, MAX_SENT, flags)
        except OSError:
            request, sent = b"", []
        if not request:
            channel.close()
            self._channel, self._alone_since = None, time.monotonic()
            return
        number, *words = request.decode().split("\0")
        try:
            self._answer(channel, number, words, sent)
        finally:
            for descriptor in sent:
                os.close(descriptor)

    def _answer(
        self, channel: socket.socket, number: str, words: list[str], sent: list[int]
    ) -> None:
        try:
            text, descriptors = answer(self._keeper, words, sent)
        except (OSError, RequestError, ValueError) as error:
            with contextlib.suppress(OSError):
                channel.send(f"{number} error {error}".encode())
            return
        with contextlib.suppress(OSError):
            socket.send_fds(channel, [f"{number} ok {text}".rstrip().encode()], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def main() -> None:
    """Serve the agent that started this process, and those that come after it."""
    channel, *rest = map(int, sys.argv[1:])
    listener, lifeline, patience = rest or (-1, -1, 0)
    for descriptor in (channel, listener, lifeline):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    os.setsid()
    first = socket.socket(fileno=channel)
    first.send(b"hello")
    Server(first, listener, lifeline, float(patience)).serve()


if __name__ == "__main__":
    main()
