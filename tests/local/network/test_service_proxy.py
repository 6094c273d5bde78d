"""The proxy where the kernel has no packet filter, on the host's loopback instead of a network."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv4Network
from random import Random

import pytest
from tests.local.network.directories import add_service, add_slice, endpoint

from kubewright.client.clock import SystemClock
from kubewright.local.network.namespace import SocketKind
from kubewright.local.network.network_policy import Isolation
from kubewright.local.network.service_directory import ServiceDirectory
from kubewright.local.network.service_proxy import ServiceProxy
from kubewright.local.node.pod_addresses import NetworkError

GATEWAY, VIRTUAL = "127.0.76.1", "127.0.77.1"
BACKENDS = ("127.0.78.1", "127.0.78.2")
TYPES = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


class Loopback:
    """A namespace that is the host itself, whose kernel leads no connections."""

    gateway, cidr = GATEWAY, "127.0.0.0/8"

    async def open_socket(self, kind: SocketKind) -> socket.socket:
        if kind == "netfilter":
            raise NetworkError("the kernel has no nf_tables")
        opened = socket.socket(socket.AF_INET, TYPES[kind])
        opened.setblocking(False)
        return opened

    async def add_address(self, address: str) -> None:
        """Every address of 127.0.0.0/8 is there already."""

    async def open_wire(self) -> socket.socket:
        raise NotImplementedError

    async def add_route(self, network: str) -> None:
        raise NotImplementedError

    async def remove_route(self, network: str) -> None:
        raise NotImplementedError


async def no_policies() -> list[Isolation]:
    return []


class Setup:
    """A proxy that runs, the directory that it follows, and servers that say who they are."""

    def __init__(self) -> None:
        self.directory = ServiceDirectory()
        self.refusals = 0
        self.port = find_port()
        self.proxy = ServiceProxy(
            self.directory,
            Loopback(),
            "node-1",
            networks=lambda: [IPv4Network("127.0.78.0/24")],
            own_address=lambda: "",
            policies=no_policies,
            refuse_policies=self._count,
            api_server=None,
            clock=SystemClock(),
            random=Random(1),
        )

    def _count(self) -> None:
        self.refusals += 1

    def lead_to(self, *addresses: str, protocol: str = "TCP", **spec: object) -> None:
        """Let the Service lead to these servers."""
        port = {"name": "p", "port": self.port, "protocol": protocol}
        add_service(self.directory, "web", clusterIP=VIRTUAL, ports=[port], **spec)
        endpoints = [endpoint(address) for address in addresses]
        add_slice(self.directory, "web", *endpoints, ports=[port])
        self.proxy.wake()


def find_port() -> int:
    """Find a port that is free at all addresses."""
    with socket.socket() as free:
        free.bind(("0.0.0.0", 0))
        return int(free.getsockname()[1])


class EchoServer:
    """Says its own address, then echoes until the client has no more to say."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError):
            writer.write(writer.get_extra_info("sockname")[0].encode() + b"\n")
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def wait_ended(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)


class EchoDatagrams(asyncio.DatagramProtocol):
    """Sends each datagram back, with a mark."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.DatagramTransport = transport  # type: ignore[assignment]  # it is one

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(b"got " + data, addr)


@asynccontextmanager
async def running(setup: Setup) -> AsyncIterator[None]:
    task = asyncio.create_task(setup.proxy.run())
    yield
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    setup = Setup()
    echo = EchoServer()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(echo.wait_ended)
        for address in BACKENDS:
            server = await asyncio.start_server(echo.serve, address, setup.port)
            await stack.enter_async_context(server)
        await stack.enter_async_context(running(setup))
        yield setup


async def connect(
    port: int, address: str = VIRTUAL
) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(address, port)
    return (await reader.readline()).decode().strip(), reader, writer


async def ask(setup: Setup) -> str:
    """Return the address of the server that a new connection reaches; "" where there is none."""
    try:
        name, _, writer = await connect(setup.port)
    except OSError:
        return ""
    writer.close()
    await writer.wait_closed()
    return name


async def eventually(setup: Setup, is_met: Callable[[str], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_met(await ask(setup)):  # noqa: ASYNC110 - the proxy has nothing to wait on
            await asyncio.sleep(0.01)


async def test_connections_go_to_all_endpoints(setup: Setup) -> None:
    setup.lead_to(*BACKENDS)
    await eventually(setup, bool)
    assert {await ask(setup) for _ in range(20)} == set(BACKENDS)
    assert setup.refusals > 0


async def test_change_of_endpoints_keeps_connections_and_leads_new_ones_elsewhere(
    setup: Setup,
) -> None:
    setup.lead_to(BACKENDS[0])
    await eventually(setup, bool)
    name, reader, writer = await connect(setup.port)
    assert name == BACKENDS[0]

    setup.lead_to(BACKENDS[1])
    await eventually(setup, lambda name: name == BACKENDS[1])
    assert {await ask(setup) for _ in range(5)} == {BACKENDS[1]}
    setup.lead_to()
    await eventually(setup, lambda name: not name)

    writer.write(b"still there")
    assert await reader.readexactly(11) == b"still there"
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()


async def test_large_conversation_is_whole(setup: Setup) -> None:
    setup.lead_to(BACKENDS[0])
    await eventually(setup, bool)
    _, reader, writer = await connect(setup.port)
    data = bytes(range(256)) * 20_000
    writer.write(data)
    writer.write_eof()
    assert await reader.read() == data
    writer.close()


async def test_endpoint_that_refuses_is_passed_over(setup: Setup) -> None:
    setup.lead_to(BACKENDS[0], "127.0.78.9")
    await eventually(setup, bool)
    assert {await ask(setup) for _ in range(10)} == {BACKENDS[0]}


async def test_client_stays_with_its_endpoint(setup: Setup) -> None:
    setup.lead_to(*BACKENDS, sessionAffinity="ClientIP")
    await eventually(setup, bool)
    first = await ask(setup)
    assert {await ask(setup) for _ in range(10)} == {first}
    other = next(address for address in BACKENDS if address != first)
    setup.lead_to(other, sessionAffinity="ClientIP")
    await eventually(setup, lambda name: name == other)


async def test_datagrams_are_relayed_both_ways(setup: Setup) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        EchoDatagrams, local_addr=(BACKENDS[0], setup.port)
    )
    setup.lead_to(BACKENDS[0], protocol="UDP")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        client.connect((VIRTUAL, setup.port))
        async with asyncio.timeout(5):
            answer = b""
            while not answer:
                try:
                    client.send(b"one")
                    async with asyncio.timeout(0.2):
                        answer = await loop.sock_recv(client, 100)
                except (OSError, TimeoutError):
                    await asyncio.sleep(0.01)
    assert answer == b"got one"
    transport.close()


async def test_node_port_is_served_on_the_host(setup: Setup) -> None:
    node_port = find_port()
    port = {"name": "p", "port": setup.port, "nodePort": node_port}
    add_service(setup.directory, "web", clusterIP=VIRTUAL, ports=[port], type="NodePort")
    add_slice(setup.directory, "web", endpoint(BACKENDS[0]), ports=[port])
    setup.proxy.wake()
    await eventually(setup, bool)
    async with asyncio.timeout(5):
        name, _, writer = await connect(node_port, "127.0.0.1")
    assert name == BACKENDS[0]
    writer.close()


async def test_service_that_is_gone_is_refused(setup: Setup) -> None:
    setup.lead_to(BACKENDS[0])
    await eventually(setup, bool)
    (key,) = [service.metadata.key for service in setup.directory.services]
    setup.directory.put_service(key, None)
    setup.proxy.wake()
    await eventually(setup, lambda name: not name)
