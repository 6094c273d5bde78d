"""SPDY/3.1 over whatever carries its bytes: a connection, or the messages of a WebSocket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from aiohttp import WSMsgType, web

from kubewright.local.node.spdy import Frame, Ping, SpdyError, SpdyFramer


class Carrier(Protocol):
    """Bytes in both directions."""

    async def receive(self) -> bytes | None:
        """Return what comes next, or None when the other side has closed. Raises OSError."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; waits while the other side is slow. Raises ConnectionError."""
        ...

    async def close(self) -> None:
        """Close; closing again does nothing."""
        ...


class WebSocketCarrier:
    """The binary messages of a WebSocket as a stream of bytes (KEP-4006)."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        """Return the next binary message, or None when the client has closed."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                return bytes(message.data)
        return None

    async def send(self, data: bytes) -> None:
        """Send one message."""
        await self._socket.send_bytes(data)

    async def close(self) -> None:
        """Close the WebSocket."""
        await self._socket.close()


class SpdyConnection:
    """The frames of one client. Pings are answered underneath."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._framer = SpdyFramer()

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield the client's frames until it goes away.

        A client that speaks something else is left, as one that is gone.
        """
        with contextlib.suppress(SpdyError, OSError):
            while (data := await self._carrier.receive()) is not None:
                for frame in self._framer.feed(data):
                    if isinstance(frame, Ping):
                        await self.send(frame)
                    else:
                        yield frame

    async def send(self, frame: Frame) -> None:
        """Send a frame. To a client that is gone nothing is to be said: `frames` sees it."""
        with contextlib.suppress(ConnectionError):
            await self._carrier.send(self._framer.encode(frame))

    async def close(self) -> None:
        """Close the connection."""
        await self._carrier.close()
