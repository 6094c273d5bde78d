"""The addresses at which the node takes connections for others, and where each leads."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import TypeAlias

import msgspec

from kubewright.client.clock import Clock
from kubewright.local.network.namespace import NetworkNamespace, SocketKind
from kubewright.local.network.relay import DatagramRelay, accept_streams
from kubewright.local.network.service_routes import Backend

_logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
BACKLOG = 128
KINDS: Mapping[str, SocketKind] = {"TCP": "tcp", "UDP": "udp"}
_HOST_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}

Bind: TypeAlias = Callable[["Frontend"], Awaitable[socket.socket]]


class Frontend(msgspec.Struct, frozen=True):
    """Where connections are taken: on the host, or in the pods' network. Port 0 is any."""

    on_host: bool
    protocol: str
    address: str
    port: int
    name: str = ""


class Target(msgspec.Struct, frozen=True):
    """Where they lead: to one of the backends, with equal chances, reached from either side.

    With `affinity_seconds` a client stays with its backend for so long after its last connection.
    """

    on_host: bool
    backends: tuple[Backend, ...]
    affinity_seconds: int = 0


class _Relay(msgspec.Struct):
    """A frontend that listens."""

    bound: socket.socket
    task: asyncio.Task[None]
    target: Target
    affinity: dict[str, tuple[Backend, float]]


class Relays:
    """Listens at the frontends that are wanted, and relays what comes.

    `apply` makes it so, with tasks in `group`. A connection keeps the backend that it has, whatever
    becomes of the frontend.
    """

    def __init__(
        self,
        namespace: NetworkNamespace,
        clock: Clock,
        random: Random,
        group: asyncio.TaskGroup,
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        self._random = random
        self._relays: dict[Frontend, _Relay] = {}
        self._refused: set[Frontend] = set()
        self._group = group

    def close(self) -> None:
        """Listen nowhere; the tasks have ended."""
        for relay in self._relays.values():
            relay.bound.close()
        self._relays.clear()

    def port_of(self, frontend: Frontend) -> int:
        """Return the port at which a frontend listens; 0 where it does not."""
        relay = self._relays.get(frontend)
        return int(relay.bound.getsockname()[1]) if relay else 0

    async def apply(self, wanted: Mapping[Frontend, Target]) -> bool:
        """Listen at the frontends that are wanted, and at no others; return whether all do.

        One whose port another process has is left out, and said once.
        """
        for frontend in [frontend for frontend in self._relays if frontend not in wanted]:
            self._end(frontend)
        self._refused &= wanted.keys()
        return await self.ensure(wanted)

    async def ensure(self, wanted: Mapping[Frontend, Target]) -> bool:
        """Listen at these frontends too; return whether all do."""
        complete = True
        for frontend, target in wanted.items():
            relay = self._relays.get(frontend)
            if relay is not None:
                relay.target = target
            elif not await self._begin(frontend, target):
                complete = False
        return complete

    def _end(self, frontend: Frontend) -> None:
        relay = self._relays.pop(frontend)
        relay.task.cancel()
        relay.bound.close()

    async def _begin(self, frontend: Frontend, target: Target) -> bool:
        try:
            bound = await self._bind(frontend)
        except OSError as error:
            if frontend not in self._refused:
                where = f"{frontend.address}:{frontend.port}/{frontend.protocol}"
                _logger.info("%s cannot be served here: %s", where, error.strerror)
                self._refused.add(frontend)
            return False

        async def dial(client: str) -> socket.socket:
            return await self._dial(frontend, client)

        if frontend.protocol == "TCP":
            bound.listen(BACKLOG)
            work = accept_streams(bound, dial, self._group)
        else:
            work = DatagramRelay(bound, dial, self._clock).run()
        task = self._group.create_task(work, name=f"{frontend.address}:{frontend.port}")
        self._relays[frontend] = _Relay(bound, task, target, {})
        return True

    async def _bind(self, frontend: Frontend) -> socket.socket:
        bound = await self._open(KINDS[frontend.protocol], on_host=frontend.on_host)
        try:
            if frontend.protocol == "TCP":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((frontend.address, frontend.port))
        except OSError:
            bound.close()
            raise
        return bound

    async def _dial(self, frontend: Frontend, client: str) -> socket.socket:
        """Connect to one of the backends; another is tried where one refuses. Raises OSError."""
        relay = self._relays.get(frontend)
        if relay is None:
            raise ConnectionRefusedError
        target = relay.target
        for backend in self._order(relay, client):
            connection = await self._open(KINDS[frontend.protocol], on_host=target.on_host)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    loop = asyncio.get_running_loop()
                    await loop.sock_connect(connection, (backend.address, backend.port))
            except (OSError, TimeoutError):
                connection.close()
                continue
            except BaseException:
                connection.close()
                raise
            if target.affinity_seconds:
                relay.affinity[client] = backend, self._clock.monotonic()
            return connection
        raise ConnectionRefusedError

    def _order(self, relay: _Relay, client: str) -> Sequence[Backend]:
        """Return the backends in the order in which they are tried."""
        backends = [*relay.target.backends]
        self._random.shuffle(backends)
        known = relay.affinity.get(client)
        if known is not None:
            backend, since = known
            fresh = self._clock.monotonic() - since < relay.target.affinity_seconds
            if fresh and backend in backends:
                backends.sort(key=lambda other: other != backend)
            else:
                del relay.affinity[client]
        return backends

    async def _open(self, kind: SocketKind, *, on_host: bool) -> socket.socket:
        if not on_host:
            return await self._namespace.open_socket(kind)
        opened = socket.socket(socket.AF_INET, _HOST_KINDS[kind])
        opened.setblocking(False)
        return opened
