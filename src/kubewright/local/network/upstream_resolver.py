"""Passes questions about names outside the cluster on to the host's name servers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from random import Random

TRY_SECONDS = 2.0
"""How long one server may take; resolvers in pods wait for five seconds by default."""
PORT = 53
_ID = struct.Struct("!H")


class UpstreamResolver:
    """Asks the host's name servers one after the other, each by a socket of its own.

    A fresh socket for each question has a port that cannot be guessed (RFC 5452). `servers` is
    called for each question: the host's configuration may change while the node runs.
    """

    def __init__(
        self, servers: Callable[[], Sequence[str]], *, random: Random, port: int = PORT
    ) -> None:
        self._servers = servers
        self._random = random
        self._port = port

    async def resolve(self, query: bytes, *, stream: bool) -> bytes | None:
        """Return the first answer to a query in wire format, with the query's own number."""
        number = _ID.pack(self._random.getrandbits(16))
        for server in self._servers():
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    ask = self._ask_stream if stream else self._ask_datagram
                    answer = await ask(server, number + query[2:])
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                continue
            return query[:2] + answer[2:]
        return None

    async def _ask_datagram(self, server: str, query: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Answer(query[:2], answer), remote_addr=(server, self._port)
        )
        try:
            transport.sendto(query)
            return await answer
        finally:
            transport.close()

    async def _ask_stream(self, server: str, query: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            writer.write(_ID.pack(len(query)) + query)
            (size,) = _ID.unpack(await reader.readexactly(2))
            return await reader.readexactly(size)
        finally:
            writer.close()


class _Answer(asyncio.DatagramProtocol):
    """Waits for the datagram that answers a number."""

    def __init__(self, number: bytes, answer: asyncio.Future[bytes]) -> None:
        self._number = number
        self._answer = answer

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if data[:2] == self._number and not self._answer.done():
            self._answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc)
