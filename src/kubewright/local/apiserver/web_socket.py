"""aiohttp's WebSockets, of either side, as `MessageSocket`."""

from __future__ import annotations

from aiohttp import ClientWebSocketResponse, WSMsgType
from aiohttp.web_ws import WebSocketResponse

MAX_MESSAGE = 1 << 25


class WebSocket:
    """A WebSocket whose text messages count as bytes. Pings are answered underneath."""

    def __init__(self, socket: WebSocketResponse | ClientWebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        """Return the next message, or None when the other side has closed."""
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def send(self, message: bytes) -> None:
        """Send a binary message; waits while the other side is slow. Raises ConnectionError."""
        await self._socket.send_bytes(message)

    async def close(self) -> None:
        """Close; closing again does nothing."""
        await self._socket.close()
