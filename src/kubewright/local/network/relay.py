"""Copies connections and datagrams between two networks that have no way to each other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from kubewright.client.clock import Clock

CHUNK = 1 << 16
FLOW_SECONDS = 120.0
"""How long a client of a datagram service may be silent; as long as the kernel remembers it."""
MAX_FLOWS = 4096
_RESET = struct.pack("ii", 1, 0)

Address: TypeAlias = tuple[str, int]
Dial: TypeAlias = Callable[[str], Awaitable[socket.socket]]
"""Connects to a backend for a client with an address. Raises OSError."""


async def accept_streams(listener: socket.socket, dial: Dial, group: asyncio.TaskGroup) -> None:
    """Accept connections until cancelled and relay each; they outlive the listener, in `group`."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection, client = await loop.sock_accept(listener)
        except ConnectionError:
            continue
        group.create_task(relay_stream(connection, client[0], dial), name="relay")


async def relay_stream(connection: socket.socket, client: str, dial: Dial) -> None:
    """Relay one connection to its end. Where there is no backend, it is reset."""
    with connection:
        connection.setblocking(False)
        try:
            backend = await dial(client)
        except (OSError, TimeoutError):
            reset(connection)
            return
        with backend:
            for each in (connection, backend):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_copy(connection, backend))
                    group.create_task(_copy(backend, connection))
            except* OSError:
                # What one side broke off, the other must not take for a whole conversation.
                reset(connection)
                reset(backend)


async def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy one direction to its end, and pass the end on."""
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, CHUNK):
        await loop.sock_sendall(target, data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def reset(connection: socket.socket) -> None:
    """Let closing a connection tell the peer that it was broken off."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


class _Flow(msgspec.Struct):
    """What one client sends and gets."""

    backend: socket.socket
    last_used: float


class DatagramRelay:
    """Relays datagrams: each client has a socket of its own to one backend, until it is silent."""

    def __init__(self, bound: socket.socket, dial: Dial, clock: Clock) -> None:
        self._bound = bound
        self._dial = dial
        self._clock = clock
        self._flows: dict[Address, _Flow] = {}

    async def run(self) -> None:
        """Relay until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forget_silent())
                while True:
                    try:
                        data, client = await loop.sock_recvfrom(self._bound, CHUNK)
                    except ConnectionError:
                        continue
                    await self._pass(data, client, group)
        finally:
            for flow in self._flows.values():
                flow.backend.close()

    async def _pass(self, data: bytes, client: Address, group: asyncio.TaskGroup) -> None:
        flow = self._flows.get(client)
        try:
            if flow is None:
                if len(self._flows) >= MAX_FLOWS:
                    return
                flow = _Flow(await self._dial(client[0]), 0.0)
                self._flows[client] = flow
                group.create_task(self._return(flow, client))
            flow.last_used = self._clock.monotonic()
            flow.backend.send(data)
        except OSError:
            # Datagrams may be lost; who sent it tries again, and then perhaps another backend.
            self._forget(client)

    async def _return(self, flow: _Flow, client: Address) -> None:
        loop = asyncio.get_running_loop()
        while self._flows.get(client) is flow:
            try:
                data = await loop.sock_recv(flow.backend, CHUNK)
                flow.last_used = self._clock.monotonic()
                self._bound.sendto(data, client)
            except OSError:
                if self._flows.get(client) is flow:
                    self._forget(client)

    def _forget(self, client: Address) -> None:
        flow = self._flows.pop(client, None)
        if flow is not None:
            with contextlib.suppress(OSError):
                # Wakes whoever waits for an answer.
                flow.backend.shutdown(socket.SHUT_RDWR)
            flow.backend.close()

    async def _forget_silent(self) -> None:
        while True:
            await self._clock.sleep(FLOW_SECONDS / 4)
            limit = self._clock.monotonic() - FLOW_SECONDS
            for client, flow in [*self._flows.items()]:
                if flow.last_used < limit:
                    self._forget(client)
