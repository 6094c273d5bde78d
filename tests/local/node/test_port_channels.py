from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer

from kubewright.local.node.port_channels import PortChannelSession, parse_ports
from kubewright.local.node.stream_refused import StreamRefused

ECHO, CLOSED = 80, 81


@asynccontextmanager
async def session(ports: Sequence[int]) -> AsyncIterator[ClientWebSocketResponse]:
    """A client of a pod that echoes on one port and listens on no other."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1024):
            if part == b"bye":
                break
            writer.write(part)
        writer.close()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0)
    address = listener.sockets[0].getsockname()

    async def connect(host: str, port: int) -> socket.socket:
        if port != ECHO:
            raise ConnectionRefusedError
        connection = socket.socket()
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address)
        return connection

    async def handle(request: web.Request) -> web.WebSocketResponse:
        web_socket = web.WebSocketResponse()
        await web_socket.prepare(request)
        await PortChannelSession(web_socket, "p", "10.0.0.1", connect, ports).run()
        return web_socket

    application = web.Application()
    application.router.add_get("/", handle)
    async with (
        listener,
        TestClient(TestServer(application)) as client,
        client.ws_connect("/") as web_socket,
    ):
        for channel in range(2 * len(ports)):
            port = ports[channel // 2].to_bytes(2, "little")
            assert await web_socket.receive_bytes() == bytes((channel,)) + port
        yield web_socket


async def test_each_port_has_a_channel_of_its_own() -> None:
    async with session([ECHO, ECHO]) as client:
        await client.send_bytes(b"\x02second")
        assert await client.receive_bytes() == b"\x02second"
        await client.send_bytes(b"\x00first")
        assert await client.receive_bytes() == b"\x00first"


async def test_a_port_that_nobody_listens_to_leaves_the_others_open() -> None:
    async with session([CLOSED, ECHO]) as client:
        assert await client.receive_bytes() == (
            b"\x01error forwarding port 81 to pod p: dial tcp 10.0.0.1:81: connect: "
            b"connection refused"
        )
        await client.send_bytes(b"\x00nobody reads this")
        await client.send_bytes(b"\x02still there")
        assert await client.receive_bytes() == b"\x02still there"


async def test_closes_when_the_pod_has_ended_the_last_connection() -> None:
    async with session([ECHO]) as client:
        await client.send_bytes(b"\x00bye")
        message = await asyncio.wait_for(client.receive(), 5)
        assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED)


def test_parses_ports() -> None:
    assert parse_ports(["80", "65535"]) == [80, 65535]


@pytest.mark.parametrize(
    ("values", "problem"),
    [([], "is required"), (["0"], "must be > 0"), (["65536"], "as a port"), (["x"], "as a port")],
)
def test_refuses_what_is_no_port(values: list[str], problem: str) -> None:
    with pytest.raises(StreamRefused, match=problem):
        parse_ports(values)
