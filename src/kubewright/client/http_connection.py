"""One connection of HTTP/1.1: a request goes out, its answer comes in, and again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import cast

import httptools

from kubewright.api.errors import TransportError

BUFFER_LIMIT = 1 << 20
"""Bytes of a streamed answer that may wait for its reader before the server is made to wait."""


class ConnectionLost(TransportError):
    """The connection ended amid an exchange.

    `unanswered` tells that not one byte of the answer had come.
    """

    def __init__(self, message: str, *, unanswered: bool) -> None:
        super().__init__(message)
        self.unanswered = unanswered


class HTTPConnection(asyncio.Protocol):
    """Carry one exchange at a time: `send`, then `read_head`, then `read_body` or `chunks`.

    Guarantees: an answer is whole or an error; a reader that is slow holds the server back. A
    connection `is_reusable` only between exchanges, when neither side asked to close it.

    Attributes:
        status: the status of the answer that is being read.
        headers: its headers by lower-case names; values of one name are joined as HTTP allows.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._answered = self._has_head = self._complete = False
        self._paused = self._is_read_whole = False
        self._reusable = True
        self._lost: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; a proxy's tunnel gives a second one, inside TLS."""
        # uvloop's transports have the methods, not the class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._answered = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(ConnectionLost(f"the answer is not HTTP: {error}", unanswered=False))
            return
        if self._buffered > BUFFER_LIMIT and not self._is_read_whole:
            self._pause()
        self._wake()

    def eof_received(self) -> bool:
        """Let the transport close; `connection_lost` follows."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange: well, where the end of the connection is the end of the answer."""
        if exc is None and self._has_head and not self._complete and self._ends_by_close():
            self._complete = True
        self._end(ConnectionLost(_reason(exc), unanswered=not self._answered))

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self.headers.get(key)
        self.headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Take the status; an interim answer (1xx) is followed by the real one."""
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self._has_head = True
            self._reusable = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._chunks.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        """Note the end of the answer."""
        if self._has_head:
            self._complete = True
        else:
            self.headers = {}

    # What the HTTP transport calls.

    @property
    def is_reusable(self) -> bool:
        """Whether another exchange may follow on this connection."""
        return self._complete and self._reusable and self._lost is None

    def send(self, request: bytes) -> None:
        """Write a request, whole; its answer must be read before the next one."""
        if self._lost is not None or self._transport is None:
            raise ConnectionLost("the connection was closed", unanswered=True)
        self.status, self.headers = 0, {}
        self._chunks.clear()
        self._buffered = 0
        self._answered = self._has_head = self._complete = self._is_read_whole = False
        self._transport.write(request)

    async def read_head(self) -> None:
        """Wait for `status` and `headers`."""
        while not self._has_head:
            await self._wait()

    async def read_body(self) -> bytes:
        """Wait for the whole body, of any size."""
        self._is_read_whole = True
        self._resume()
        while not self._complete:
            await self._wait()
        chunks = self._chunks
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it comes."""
        while True:
            if self._chunks:
                # Servers send each event as a chunk: those that came together are read together.
                together = b"".join(self._chunks)
                self._chunks.clear()
                self._buffered = 0
                yield together
                continue
            self._resume()
            if self._complete:
                return
            await self._wait()

    def close(self) -> None:
        """End the connection, amid an answer too."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(self, context: ssl.SSLContext, server_hostname: str) -> None:
        """Go on inside TLS, through the tunnel that a proxy opened.

        Raises:
            OSError: the handshake failed.
        """
        loop = asyncio.get_running_loop()
        assert self._transport is not None
        inner = await loop.start_tls(
            self._transport,
            self,
            context,
            server_hostname=server_hostname,
        )
        self._transport = inner
        self._parser = httptools.HttpResponseParser(self)

    async def _wait(self) -> None:
        if self._lost is not None:
            raise self._lost
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _ends_by_close(self) -> bool:
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers

    def _end(self, reason: Exception) -> None:
        if self._lost is None:
            self._lost = reason
        self.close()
        self._wake()


def _reason(error: Exception | None) -> str:
    if error is None or isinstance(error, ConnectionError):
        return "the connection broke off amid the answer"
    return f"the connection broke off: {error}"
