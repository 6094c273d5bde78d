"""Connections that leave HTTP by an upgrade which aiohttp does not know, such as SPDY/3.1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

PART = 1 << 16


class ByteStream:
    """Bytes in both directions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes | None:
        """Return what comes next, or None when the other side has closed. Raises OSError."""
        return await self._reader.read(PART) or None

    async def send(self, data: bytes) -> None:
        """Send bytes; waits while the other side is slow. Raises ConnectionError."""
        self._writer.write(data)
        await self._writer.drain()

    def detach(self) -> asyncio.Transport:
        """Give the connection to another protocol, for which nothing must have come yet."""
        # Streams type it as what can only be written to; a connection's is both.
        return cast("asyncio.Transport", self._writer.transport)

    async def close(self) -> None:
        """Close; closing again does nothing."""
        self._writer.close()


class UpgradedResponse(StreamResponse):
    """The answer of a handler whose connection is over: there is nothing to write any more."""

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Write nothing."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


class _Protocol(asyncio.StreamReaderProtocol):
    is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        super().connection_lost(exc)


@asynccontextmanager
async def take_over(request: BaseRequest, headers: Mapping[str, str]) -> AsyncIterator[ByteStream]:
    """Answer 101 with these headers, and lend the connection; it is closed at the end.

    The client must wait for the answer before it speaks the new protocol, as SPDY clients do.
    The handler then returns an `UpgradedResponse`.

    Raises:
        ConnectionResetError: the client is gone.
    """
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = _Protocol(reader)
    former = transport.get_protocol()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode("latin-1"))
    try:
        yield ByteStream(reader, writer)
    finally:
        # aiohttp forgets the connection when its own protocol hears of the end.
        if protocol.is_lost:
            loop.call_soon(former.connection_lost, None)
        else:
            transport.set_protocol(former)
            transport.close()
