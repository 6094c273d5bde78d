"""A remote command's streams as streams of a SPDY connection.

Clients open a stream for each, whose header `streamtype` names it. In the first three versions of
the protocol the error stream carries a failure's message, and from v4 on a Status.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kubewright.api.resource import Object
from kubewright.local.node.exec_channels import Channel, StreamOptions, encode_status
from kubewright.local.node.spdy import (
    REFUSED_STREAM,
    AcceptStream,
    Frame,
    OpenStream,
    ResetStream,
    StreamData,
)
from kubewright.local.node.spdy_connection import SpdyConnection

PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
CREATION_SECONDS = 30.0
_CHANNELS = {
    "stdin": Channel.STDIN,
    "stdout": Channel.STDOUT,
    "stderr": Channel.STDERR,
    "error": Channel.ERROR,
    "resize": Channel.RESIZE,
}


class SpdyChannels:
    """The streams of one client that has connected over SPDY. Use `open` first."""

    def __init__(self, connection: SpdyConnection, protocol: str, options: StreamOptions) -> None:
        self._connection = connection
        self._protocol = protocol
        self._missing = _expected(protocol, options)
        self._by_channel: dict[Channel, int] = {}
        self._by_stream: dict[int, Channel] = {}
        self._frames = connection.frames()
        self._early: list[tuple[Channel, bytes]] = []

    async def open(self) -> bool:
        """Wait until the client has opened its streams; False where it does not, or goes away."""
        try:
            async with asyncio.timeout(CREATION_SECONDS):
                while self._missing:
                    frame = await anext(self._frames, None)
                    if frame is None:
                        return False
                    self._early += await self._take(frame)
        except TimeoutError:
            return False
        return True

    async def receive(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Yield what the client sends, until it goes away."""
        for part in self._early:
            yield part
        async for frame in self._frames:
            for part in await self._take(frame):
                yield part

    async def _take(self, frame: Frame) -> list[tuple[Channel, bytes]]:
        parts: list[tuple[Channel, bytes]] = []
        match frame:
            case OpenStream(stream, headers, finished):
                await self._open_stream(stream, headers.get("streamtype", ""))
                if finished:
                    parts = self._close(stream)
            case StreamData(stream, data, finished):
                channel = self._by_stream.get(stream)
                if channel is not None and data:
                    parts.append((channel, data))
                if finished:
                    parts += self._close(stream)
            case ResetStream(stream):
                parts = self._close(stream)
        return parts

    async def _open_stream(self, stream: int, kind: str) -> None:
        channel = _CHANNELS.get(kind)
        if channel is None or channel in self._by_channel:
            await self._connection.send(ResetStream(stream, REFUSED_STREAM))
            return
        self._by_channel[channel] = stream
        self._by_stream[stream] = channel
        self._missing.discard(channel)
        await self._connection.send(AcceptStream(stream))

    def _close(self, stream: int) -> list[tuple[Channel, bytes]]:
        channel = self._by_stream.pop(stream, None)
        return [] if channel is None else [(Channel.CLOSE, bytes([channel]))]

    async def send(self, channel: Channel, payload: bytes) -> None:
        """Send to the client. To one that is gone nothing is to be said."""
        if (stream := self._by_channel.get(channel)) is not None:
            await self._connection.send(StreamData(stream, payload))

    async def end(self, status: Object) -> None:
        """Tell how it ended, and close."""
        if self._protocol == PROTOCOLS[0]:
            await self.send(Channel.ERROR, encode_status(status))
        elif status["status"] != "Success":
            await self.send(Channel.ERROR, str(status["message"]).encode())
        for stream in self._by_channel.values():
            await self._connection.send(StreamData(stream, b"", finished=True))
        await self._connection.close()


def _expected(protocol: str, options: StreamOptions) -> set[Channel]:
    """Return the streams that a client opens. Terminals have sizes from v3 on."""
    wanted = {
        Channel.ERROR: True,
        Channel.STDIN: options.stdin,
        Channel.STDOUT: options.stdout,
        Channel.STDERR: options.stderr,
        Channel.RESIZE: options.tty and protocol in PROTOCOLS[:2],
    }
    return {channel for channel, is_wanted in wanted.items() if is_wanted}
