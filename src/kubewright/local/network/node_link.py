"""The way between the pods of different nodes: packets go from one agent to the other.

The nodes of a local cluster are processes of one user on one machine. Each has a socket with a name
in its folder, which the annotation of its Node tells; packets for the pods of a node are sent there
as they are. No device of the host is needed, no privilege, and no port that others could send to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Network
from pathlib import Path

from kubewright.api.resource import Object
from kubewright.local.network.namespace import NetworkNamespace

_logger = logging.getLogger(__name__)

LINK_ANNOTATION = "kubewright.dev/network-link"
MAX_PACKET = 1 << 17
BUFFER = 4 << 20
HEADER = 10 + 14
"""The bytes before an IP packet: a virtio_net_hdr and an Ethernet header."""
BATCH = 64
"""How many packets are passed on before others get their turn."""


class NodeLink:
    """Passes packets between the wire of this node and the sockets of the other nodes.

    `blocks` tells for two addresses whether packets from one to the other are lost.
    """

    def __init__(
        self,
        namespace: NetworkNamespace,
        path: Path,
        *,
        blocks: Callable[[bytes, bytes], bool] = lambda source, target: False,
    ) -> None:
        self._namespace = namespace
        self.path = path
        self._blocks = blocks
        self._wire: socket.socket | None = None
        self._link: socket.socket | None = None
        self._targets: dict[int, str] = {}
        self._sources: frozenset[int] = frozenset()
        self._peers: dict[IPv4Network, Path] = {}
        self._folders: dict[Path, int] = {}
        self._routes: set[str] = set()

    async def run(self) -> None:
        """Pass packets until cancelled. Raises NetworkError and OSError."""
        loop = asyncio.get_running_loop()
        self._wire = await self._namespace.open_wire()
        self._link = self._listen()
        try:
            await self._set_routes()
            loop.add_reader(self._wire, self._send_out)
            loop.add_reader(self._link, self._take_in)
            await loop.create_future()
        finally:
            for each in (self._wire, self._link):
                loop.remove_reader(each)
                each.close()
            for folder in self._folders.values():
                os.close(folder)
            self._folders.clear()
            self.path.unlink(missing_ok=True)

    def _listen(self) -> socket.socket:
        self.path.unlink(missing_ok=True)
        link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            link.setsockopt(socket.SOL_SOCKET, option, BUFFER)
        link.setblocking(False)
        link.bind(self._short_name(self.path))
        return link

    async def connect(self, peers: Mapping[IPv4Network, Path]) -> None:
        """Take the networks of the other nodes' pods, each with its node's socket."""
        self._peers = dict(peers)
        targets: dict[int, str] = {}
        for network, path in peers.items():
            with contextlib.suppress(FileNotFoundError):
                name = self._short_name(path)
                # Node networks are /24 or larger: the first three bytes of an address tell.
                targets.update({int(s.network_address) >> 8: name for s in split(network)})
        self._targets = targets
        if self._wire is not None:
            await self._set_routes()

    async def _set_routes(self) -> None:
        wanted = {str(network) for network in self._peers}
        for network in wanted - self._routes:
            await self._namespace.add_route(network)
        for network in self._routes - wanted:
            await self._namespace.remove_route(network)
        self._routes = wanted

    def _short_name(self, path: Path) -> str:
        """Return a name that fits a socket's address, by way of the folder's descriptor."""
        folder = path.parent
        if folder not in self._folders:
            self._folders[folder] = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folders[folder]}/{path.name}"

    def _send_out(self) -> None:
        assert self._wire is not None
        assert self._link is not None
        for _ in range(BATCH):
            try:
                packet = self._wire.recv(MAX_PACKET)
            except BlockingIOError:
                return
            except OSError as error:
                _logger.warning("a packet for another node was lost: %s", error.strerror)
                return
            source, target = read_addresses(packet)
            name = self._targets.get(int.from_bytes(target[:3]))
            if name is None or self._blocks(source, target):
                continue
            # A node that is gone or busy loses packets, as any network does.
            with contextlib.suppress(OSError):
                self._link.sendto(packet, name)

    def _take_in(self) -> None:
        assert self._wire is not None
        assert self._link is not None
        for _ in range(BATCH):
            try:
                packet = self._link.recv(MAX_PACKET)
            except OSError:
                return
            source, target = read_addresses(packet)
            # Only the pods of other nodes may speak here: nobody can seem to be one of ours.
            if int.from_bytes(source[:3]) not in self._targets or self._blocks(source, target):
                continue
            with contextlib.suppress(OSError):
                self._wire.send(packet)


def find_peers(nodes: Iterable[Object], own: str) -> dict[IPv4Network, Path]:
    """Find the networks of the other nodes' pods, each with the socket that its node tells."""
    peers = {}
    for node in nodes:
        path = (node["metadata"].get("annotations") or {}).get(LINK_ANNOTATION)
        if not path or node["metadata"]["name"] == own:
            continue
        for cidr in (node.get("spec") or {}).get("podCIDRs") or ():
            if ":" not in cidr:
                peers[IPv4Network(cidr)] = Path(path)
    return peers


def read_addresses(packet: bytes) -> tuple[bytes, bytes]:
    """Return the source and target address of an IPv4 packet; empty for any other."""
    if len(packet) < HEADER + 20 or packet[HEADER - 2 : HEADER] != b"\x08\x00":
        return b"", b""
    return packet[HEADER + 12 : HEADER + 16], packet[HEADER + 16 : HEADER + 20]


def split(network: IPv4Network) -> list[IPv4Network]:
    """Split a network into parts of 256 addresses; a smaller one counts as the part it is of."""
    if network.prefixlen >= 24:
        return [network.supernet(new_prefix=24)]
    return list(network.subnets(new_prefix=24))
