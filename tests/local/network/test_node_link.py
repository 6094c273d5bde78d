from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from kubewright.local.network.namespace import SocketKind
from kubewright.local.network.node_link import (
    LINK_ANNOTATION,
    NodeLink,
    find_peers,
    read_addresses,
    split,
)

FIRST, SECOND = IPv4Network("10.244.1.0/24"), IPv4Network("10.244.2.0/24")


def build_packet(source: str, target: str, protocol: bytes = b"\x08\x00") -> bytes:
    """Build a packet as the wire gives it: two headers before the IPv4 one."""
    addresses = IPv4Address(source).packed + IPv4Address(target).packed
    return bytes(10 + 12) + protocol + bytes(12) + addresses + b"data"


class Wire:
    """A namespace whose wire ends in the test."""

    gateway, cidr = "", ""

    def __init__(self) -> None:
        self.end, self._ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (self.end, self._ours):
            each.setblocking(False)
        self.routes: set[str] = set()

    async def open_wire(self) -> socket.socket:
        return self._ours

    async def open_socket(self, kind: SocketKind) -> socket.socket:
        raise NotImplementedError

    async def add_address(self, address: str) -> None:
        raise NotImplementedError

    async def add_route(self, network: str) -> None:
        self.routes.add(network)

    async def remove_route(self, network: str) -> None:
        self.routes.remove(network)


Start = Callable[[str], tuple[Wire, NodeLink]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    tasks: list[asyncio.Task[None]] = []
    wires = []

    def start(name: str) -> tuple[Wire, NodeLink]:
        wire = Wire()
        wires.append(wire)
        folder = tmp_path / (name + "-in-a-folder-with-a-long-name" * 4)
        folder.mkdir(exist_ok=True)
        link = NodeLink(wire, folder / "network.sock", blocks=is_blocked)
        tasks.append(asyncio.create_task(link.run()))
        return wire, link

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for wire in wires:
        wire.end.close()


def is_blocked(source: bytes, target: bytes) -> bool:
    return target == IPv4Address("10.244.2.99").packed


async def receive(wire: Wire) -> bytes:
    async with asyncio.timeout(5):
        return await asyncio.get_running_loop().sock_recv(wire.end, 4096)


async def test_packets_go_to_the_node_of_their_target(start: Start, tmp_path: Path) -> None:
    """The names of sockets are longer than a socket's address may be."""
    (first, one), (second, two) = start("first"), start("second")
    await asyncio.sleep(0)
    await one.connect({SECOND: two.path})
    await two.connect({FIRST: one.path})
    assert first.routes == {str(SECOND)}

    there = build_packet("10.244.1.5", "10.244.2.7")
    for lost in ("10.244.2.99", "10.244.3.1", "192.0.2.1"):
        first.end.send(build_packet("10.244.1.5", lost))
    first.end.send(there)
    assert await receive(second) == there
    back = build_packet("10.244.2.7", "10.244.1.5")
    second.end.send(back)
    assert await receive(first) == back


async def test_only_other_nodes_pods_come_in(start: Start) -> None:
    (_, one), (second, two) = start("first"), start("second")
    await asyncio.sleep(0)
    await two.connect({FIRST: one.path})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        name = f"/proc/self/cwd/{two.path.name}"
        assert len(str(two.path)) > 107
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(two.path.parent)
            stranger.sendto(build_packet("10.244.2.8", "10.244.2.7"), name)
            known = build_packet("10.244.1.8", "10.244.2.7")
            stranger.sendto(known, name)
    assert await receive(second) == known


async def test_node_that_is_gone_loses_its_route(start: Start) -> None:
    (first, one), (_, two) = start("first"), start("second")
    await asyncio.sleep(0)
    await one.connect({SECOND: two.path})
    await one.connect({})
    assert first.routes == set()


def test_finds_the_other_nodes() -> None:
    def node(name: str, cidr: str, path: str) -> dict[str, object]:
        annotations = {LINK_ANNOTATION: path} if path else {}
        metadata = {"name": name, "annotations": annotations}
        return {"metadata": metadata, "spec": {"podCIDRs": [cidr, "fd00::/64"]}}

    nodes = [
        node("n1", str(FIRST), "/1"),
        node("n2", str(SECOND), "/2"),
        node("n3", "10.0.0.0/8", ""),
    ]
    assert find_peers(nodes, "n1") == {SECOND: Path("/2")}


def test_reads_addresses_of_ip_packets_only() -> None:
    packet = build_packet("10.0.0.1", "10.0.0.2")
    assert read_addresses(packet) == (b"\x0a\0\0\x01", b"\x0a\0\0\x02")
    assert read_addresses(build_packet("10.0.0.1", "10.0.0.2", b"\x86\xdd")) == (b"", b"")
    assert read_addresses(packet[:40]) == (b"", b"")


def test_splits_networks() -> None:
    assert [str(part) for part in split(IPv4Network("10.1.0.0/23"))] == [
        "10.1.0.0/24",
        "10.1.1.0/24",
    ]
    assert split(IPv4Network("10.1.0.128/25")) == [IPv4Network("10.1.0.0/24")]
