"""The process that holds a node's network: run as a script, first process of its namespaces.

It is started by `network.PodNetwork` inside fresh network, mount and pid namespaces (and a user
namespace, for an ordinary user) and answers one request at a time on the socket it was given:

    bridge CIDR GATEWAY            make the bridge that the pods hang on
    uplink INTERFACE ADDRESS       use an interface that was moved here as the way to the host
    sandbox HOSTNAME PORT ADDRESS GATEWAY    make a pod's namespaces; answers with net, uts, ipc
    socket KIND                    make a socket in this network; answers with it
    address ADDRESS                make an address one of this network's own
    wire CIDR                      make the way to other nodes; answers with a packet socket
    route CIDR                     let an address range lead out of this network's own sockets
    tmpfs PATH OPTIONS             mount a tmpfs that only this mount namespace and its heirs see

The words of a request are separated by NUL. Answers are `ok` with descriptors (SCM_RIGHTS), or
`error TEXT`. Everything that runs in the pods lives in this process's pid namespace: when its
socket closes, because the agent is gone in whatever way, it ends and the kernel takes all
processes, interfaces and mounts with it.

The script imports no package and few modules: it stays for the life of the node.
"""

import contextlib
import ctypes
import os
import select
import socket
import sys

CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x04000000, 0x08000000, 0x40000000
BRIDGE = "pods"
REAP_SECONDS = 5.0
NETLINK_NETFILTER = 12
SOCKETS = {
    "tcp": (socket.AF_INET, socket.SOCK_STREAM, 0),
    "udp": (socket.AF_INET, socket.SOCK_DGRAM, 0),
    "netfilter": (socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER),
}
SETTINGS = {
    "ip_forward": "1",
    # The sender of a packet that goes back to the bridge cannot reach its target in another way.
    "conf/all/send_redirects": "0",
    "conf/default/send_redirects": "0",
    "conf/all/rp_filter": "0",
    "conf/default/rp_filter": "0",
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
        with open(f"/proc/sys/net/ipv4/{name}", "w") as setting:
            setting.write(value)
    prefix = cidr.partition("/")[2]
    run_ip(
        f"link set lo up\nlink add {BRIDGE} type bridge forward_delay 0 stp_state 0\n"
        f"addr add {gateway}/{prefix} dev {BRIDGE}\nlink set {BRIDGE} up\n"
    )


def make_wire(cidr: str) -> int:
    """Make the way to the pods of other nodes; what is sent there comes out of the packet socket.

    Packets carry a header that tells what is left to do for them (virtio_net_hdr): checksums and
    segments are made once, by whoever takes them off the last node.
    """
    run_ip(
        f"link add {WIRE} address {WIRE_ADDRESS} type veth peer name {WIRE_END}\n"
        f"link set {WIRE} arp off\nlink set {WIRE_END} arp off\n"
        f"link set {WIRE} up\nlink set {WIRE_END} up\nroute replace {cidr} dev {WIRE}\n"
    )
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    wire.bind((WIRE_END, ETH_P_ALL))
    return wire.detach()


def make_sandbox(hostname: str, port: str, address: str, gateway: str) -> list[int]:
    """Make the namespaces of a pod; `port` is this end of the veth pair to the bridge."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve_sandbox(theirs, hostname, address, gateway)
    theirs.close()
    try:
        _expect(ours, b"unshared")
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


def _serve_sandbox(channel: socket.socket, hostname: str, address: str, gateway: str) -> None:
    """Be the short-lived process that makes and configures a sandbox from inside. Never returns."""
    try:
        if _libc.unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC):
            raise RequestError(f"unshare: {os.strerror(ctypes.get_errno())}")
        socket.sethostname(hostname)
        channel.send(b"unshared")
        if channel.recv(16) != b"linked":
            os._exit(1)
        run_ip(
            f"link set lo up\naddr add {address}/32 dev eth0\nlink set eth0 up\n"
            f"route add {gateway} dev eth0\nroute add default via {gateway}\n"
        )
        # As container runtimes do: a pod may listen on port 80 without being root. A read-only
        # /proc/sys, as some containers have, leaves the kernel's default.
        with (
            contextlib.suppress(OSError),
            open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as f,
        ):
            f.write("0")
        names = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in ("net", "uts", "ipc")]
        socket.send_fds(channel, [b"ready"], names)
    except (OSError, RequestError) as error:
        channel.send(f"error {error}".encode())
    os._exit(0)


def _expect(channel: socket.socket, word: bytes) -> list[int]:
    message, descriptors, _, _ = socket.recv_fds(channel, 4096, 3)
    if message != word:
        raise RequestError(message.decode(errors="replace").removeprefix("error "))
    return descriptors


def mount_memory(path: str, options: str) -> None:
    """Mount a tmpfs."""
    if _libc.mount(b"tmpfs", path.encode(), b"tmpfs", ctypes.c_ulong(6), options.encode()):
        raise RequestError(f"mount tmpfs at {path}: {os.strerror(ctypes.get_errno())}")


def answer(words: list[str]) -> list[int]:
    """Fulfil one request and return the descriptors that go with the answer."""
    match words:
        case ["bridge", cidr, gateway]:
            make_bridge(cidr, gateway)
        case ["uplink", interface, address]:
            run_ip(f"link set {interface} up\nroute add {address} dev {interface}\n")
        case ["address", address]:
            run_ip(f"addr replace {address}/32 dev lo\n")
        case ["route", cidr]:
            run_ip(f"route replace {cidr} dev {BRIDGE}\n")
        case ["wire", cidr]:
            return [make_wire(cidr)]
        case ["sandbox", hostname, port, address, gateway]:
            return make_sandbox(hostname, port, address, gateway)
        case ["tmpfs", path, options]:
            mount_memory(path, options)
        case ["socket", kind] if kind in SOCKETS:
            return [socket.socket(*SOCKETS[kind]).detach()]
        case _:
            raise RequestError(f"unknown request {' '.join(words)!r}")
    return []


def serve(channel: socket.socket) -> None:
    """Answer requests until the agent's end closes."""
    while True:
        ready, _, _ = select.select([channel], [], [], REAP_SECONDS)
        if ready:
            request = channel.recv(4096)
            if not request:
                return
            number, *words = request.decode().split("\0")
            _answer_on(channel, number, words)
        _reap()


def _answer_on(channel: socket.socket, number: str, words: list[str]) -> None:
    try:
        descriptors = answer(words)
    except (OSError, RequestError) as error:
        channel.send(f"{number} error {error}".encode())
        return
    socket.send_fds(channel, [f"{number} ok".encode()], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def _reap() -> None:
    """Collect processes whose parent ended before them: they are this first process's children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    channel = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(channel.fileno(), False)
    os.setsid()
    channel.send(b"hello")
    serve(channel)
