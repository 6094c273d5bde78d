"""A remote command's streams as channels of a WebSocket (KEP-4006).

Each message begins with a byte that names its channel. v5.channel.k8s.io adds the closing of one
channel to v4.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import WSMsgType, web

from kubewright.api.resource import Object
from kubewright.local.node.exec_channels import Channel, encode_status

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CHANNELS = {bytes([channel]): channel for channel in Channel}


class WebSocketChannels:
    """The streams of one client that has connected over a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Yield what the client sends, until it goes away."""
        async for message in self._socket:
            data = message.data
            if message.type is WSMsgType.TEXT:
                data = data.encode()
            elif message.type is not WSMsgType.BINARY:
                continue
            if (channel := _CHANNELS.get(data[:1])) is not None:
                yield channel, data[1:]

    async def send(self, channel: Channel, payload: bytes) -> None:
        """Send to the client. To one that is gone nothing is to be said."""
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(bytes([channel]) + payload)

    async def end(self, status: Object) -> None:
        """Tell how it ended, and close."""
        await self.send(Channel.ERROR, encode_status(status))
        await self._socket.close()
