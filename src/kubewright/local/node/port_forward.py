"""Forwarded ports of a pod: streams of a SPDY connection, of its own or in a WebSocket (KEP-4006).

Each connection is a pair of streams with the same `requestID`: one whose `streamtype` is data, and
one for what goes wrong. Both name the `port`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import msgspec

from kubewright.local.node.probe_handlers import dial_error
from kubewright.local.node.spdy import (
    REFUSED_STREAM,
    AcceptStream,
    Frame,
    OpenStream,
    ResetStream,
    StreamData,
)
from kubewright.local.node.spdy_connection import SpdyConnection

PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
PART = 1 << 15
QUEUED = 64

Connect = Callable[[str, int], Awaitable[socket.socket]]


class Forward(msgspec.Struct):
    """One forwarded connection. `incoming` holds what the client sent; None is its end."""

    port: int
    data: int = 0
    error: int = 0
    incoming: asyncio.Queue[bytes | None] = msgspec.field(
        default_factory=lambda: asyncio.Queue(QUEUED)
    )
    task: asyncio.Task[None] | None = None


class PortForwardSession:
    """Forwards the connections of one client to a pod, until the client goes away."""

    def __init__(
        self, connection: SpdyConnection, pod: str, address: str, connect: Connect
    ) -> None:
        self._connection = connection
        self._pod = pod
        self._address = address
        self._connect = connect
        self._requests: dict[str, Forward] = {}
        self._by_data: dict[int, Forward] = {}

    async def run(self) -> None:
        """Serve the client to its end."""
        async with asyncio.TaskGroup() as group:
            async for frame in self._connection.frames():
                await self._take(group, frame)
            for forward in self._by_data.values():
                if forward.task is not None:
                    forward.task.cancel()
        await self._connection.close()

    async def _take(self, group: asyncio.TaskGroup, frame: Frame) -> None:
        match frame:
            case OpenStream():
                await self._open(group, frame)
            case StreamData(stream, data, finished):
                forward = self._by_data.get(stream)
                if forward is not None and data:
                    await forward.incoming.put(data)
                if forward is not None and finished:
                    await forward.incoming.put(None)
            case ResetStream(stream):
                forward = self._by_data.pop(stream, None)
                if forward is not None and forward.task is not None:
                    forward.task.cancel()

    async def _open(self, group: asyncio.TaskGroup, frame: OpenStream) -> None:
        headers = frame.headers
        kind, port, request = (headers.get(n, "") for n in ("streamtype", "port", "requestid"))
        is_known = kind in ("data", "error")
        if not is_known or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            await self._connection.send(ResetStream(frame.stream, REFUSED_STREAM))
            return
        await self._connection.send(AcceptStream(frame.stream))
        forward = self._requests.setdefault(request, Forward(int(port)))
        if kind == "data":
            forward.data = frame.stream
            self._by_data[frame.stream] = forward
        else:
            forward.error = frame.stream
        if forward.data and forward.error:
            del self._requests[request]
            forward.task = group.create_task(self._forward(forward))

    async def _forward(self, forward: Forward) -> None:
        failure = ""
        try:
            try:
                connection = await self._connect(self._address, forward.port)
            except OSError as error:
                reason = dial_error(self._address, forward.port, error)
                failure = f"error forwarding port {forward.port} to pod {self._pod}: {reason}"
            else:
                await copy_connection(
                    connection,
                    forward.incoming,
                    lambda part: self._connection.send(StreamData(forward.data, part)),
                )
            await self._connection.send(StreamData(forward.error, failure.encode(), finished=True))
            await self._connection.send(StreamData(forward.data, b"", finished=True))
        finally:
            self._by_data.pop(forward.data, None)


async def copy_connection(
    connection: socket.socket,
    incoming: asyncio.Queue[bytes | None],
    send: Callable[[bytes], Awaitable[None]],
) -> None:
    """Copy both ways until the pod ends the connection; None in `incoming` ends what goes in."""
    reader, writer = await asyncio.open_connection(sock=connection)
    uploading = asyncio.create_task(_upload(incoming, writer))
    try:
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(PART):
                await send(part)
    finally:
        uploading.cancel()
        await asyncio.gather(uploading, return_exceptions=True)
        writer.close()


async def _upload(incoming: asyncio.Queue[bytes | None], writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while (data := await incoming.get()) is not None:
            writer.write(data)
            await writer.drain()
        writer.write_eof()
