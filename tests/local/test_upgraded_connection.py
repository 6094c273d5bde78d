from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.web_request import BaseRequest
from aiohttp.web_server import Server

from kubewright.local.upgraded_connection import ByteStream, UpgradedResponse, take_over

REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
HEADERS = {"Connection": "Upgrade", "Upgrade": "echo"}
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def upgraded(
    serve: Callable[[ByteStream], Awaitable[None]],
) -> AsyncIterator[tuple[Server, Streams]]:
    """A server that gives its connections to `serve`, and a client whose upgrade it answered."""

    async def handle(request: BaseRequest) -> web.StreamResponse:
        async with take_over(request, HEADERS) as stream:
            await serve(stream)
        return UpgradedResponse()

    server = Server(handle, handler_cancellation=True)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    async with listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        yield server, (reader, writer)
        writer.close()
        await server.shutdown(1)


async def echo(stream: ByteStream) -> None:
    while (data := await stream.receive()) is not None and data != b"bye":
        await stream.send(data)


async def forgotten(server: Server) -> None:
    # aiohttp tells nobody when it forgets a connection.
    while server.connections:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_carries_bytes_that_are_no_http_both_ways() -> None:
    async with upgraded(echo) as (_, (reader, writer)):
        writer.write(b"\0\1\r\n\r\nGET")
        assert await reader.readexactly(9) == b"\0\1\r\n\r\nGET"

        writer.write(b"bye")
        assert await reader.read() == b""


async def test_the_server_forgets_a_connection_that_either_side_closed() -> None:
    for last in (b"bye", b""):
        async with upgraded(echo) as (server, (reader, writer)):
            writer.write(last)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            await asyncio.wait_for(forgotten(server), 5)


async def test_what_a_client_sent_before_it_closed_is_received() -> None:
    received: list[bytes] = []
    done = asyncio.Event()

    async def serve(stream: ByteStream) -> None:
        await asyncio.sleep(0.05)
        while (data := await stream.receive()) is not None:
            received.append(data)
        done.set()

    async with upgraded(serve) as (_, (_, writer)):
        writer.write(b"last words")
        writer.close()
        await asyncio.wait_for(done.wait(), 5)

    assert b"".join(received) == b"last words"
