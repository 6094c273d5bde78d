"""Forwarded ports of a pod over the numbered channels of one WebSocket.

This is what clients speak that know no SPDY: the official Python client, kr8s. Each message begins
with a byte that names its channel. The port of index N in the request has the channels 2N, for
data, and 2N+1, for what goes wrong; both begin with the port as two bytes, the low one first.
One connection into the pod is opened for each port. A channel cannot be closed alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from aiohttp import WSMsgType, web

from kubewright.local.node.port_forward import QUEUED, Connect, copy_connection
from kubewright.local.node.probe_handlers import dial_error
from kubewright.local.node.stream_refused import StreamRefused

PROTOCOLS = ("v4.channel.k8s.io", "channel.k8s.io")


def parse_ports(values: Sequence[str]) -> list[int]:
    """Parse the kubelet's parameter `port`, which repeats.

    Raises:
        StreamRefused: there is none, or one is no port.
    """
    if not values:
        raise StreamRefused(400, 'query parameter "port" is required')
    for value in values:
        if not value.isdecimal() or int(value) >= 1 << 16:
            raise StreamRefused(400, f'unable to parse "{value}" as a port')
        if int(value) == 0:
            raise StreamRefused(400, 'port "0" must be > 0')
    return [int(value) for value in values]


class PortChannelSession:
    """Forwards some ports of a pod to one client, until all connections or the client are gone."""

    def __init__(
        self,
        web_socket: web.WebSocketResponse,
        pod: str,
        address: str,
        connect: Connect,
        ports: Sequence[int],
    ) -> None:
        self._socket = web_socket
        self._pod = pod
        self._address = address
        self._connect = connect
        self._ports = ports
        self._incoming: dict[int, asyncio.Queue[bytes | None]] = {}

    async def run(self) -> None:
        """Serve the client to its end."""
        for index, port in enumerate(self._ports):
            self._incoming[index] = asyncio.Queue(QUEUED)
            for channel in (2 * index, 2 * index + 1):
                await self._send(channel, port.to_bytes(2, "little"))
        async with asyncio.TaskGroup() as group:
            ends = {group.create_task(self._read()), group.create_task(self._forward_all())}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            index, is_error = divmod(message.data[0], 2)
            incoming = self._incoming.get(index)
            if incoming is not None and not is_error:
                await incoming.put(message.data[1:])

    async def _forward_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for index, port in enumerate(self._ports):
                group.create_task(self._forward(index, port))

    async def _forward(self, index: int, port: int) -> None:
        incoming = self._incoming[index]
        try:
            connection = await self._connect(self._address, port)
        except OSError as error:
            reason = dial_error(self._address, port, error)
            text = f"error forwarding port {port} to pod {self._pod}: {reason}"
            await self._send(2 * index + 1, text.encode())
        else:
            await copy_connection(connection, incoming, lambda part: self._send(2 * index, part))
        finally:
            del self._incoming[index]

    async def _send(self, channel: int, data: bytes) -> None:
        # To a client that is gone nothing is to be said; `_read` sees it and ends what goes on.
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(bytes((channel,)) + data)
