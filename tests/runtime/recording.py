"""A transport that notes the writes that pass through it, and dies when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from random import Random

import msgspec

from kubewright.api.errors import Conflict, Forbidden, InternalError, TransportError
from kubewright.client.transport import (
    NO_HEADERS,
    PassingTransport,
    Query,
    Response,
    Stream,
    Transport,
)


@dataclass(frozen=True)
class Write:
    """A request that may have changed something, and its answer."""

    method: str
    path: str
    status: int

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


class RecordingTransport(PassingTransport):
    """Pass requests on; keep the writes, Events excepted.

    `die_after(n)` carries out n more writes and loses the answer of the last one; from then on
    nothing passes, as if the process had been killed, until `revive`.
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._left: int | None = None
        self._loses = False
        self.writes: list[Write] = []

    @property
    def is_dead(self) -> bool:
        return self._left is not None and self._left <= 0

    def die_after(self, writes: int) -> None:
        self._left = writes

    def lose_next_answer(self) -> None:
        self._loses = True

    def revive(self) -> None:
        self._left = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if self.is_dead:
            raise TransportError("the connection is dead")
        is_write = method not in ("GET", "HEAD") and "/events" not in path
        response = await self._inner.request(method, path, query=query, headers=headers, body=body)
        if is_write:
            self.writes.append(Write(method, path, response.status))
            if self._loses:
                self._loses = False
                raise TransportError("the answer was lost")
            if self._left is not None:
                self._left -= 1
                if self.is_dead:
                    raise TransportError("the connection died before the answer came")
        return response

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        if self.is_dead:
            raise TransportError("the connection is dead")
        return self._inner.stream(method, path, query=query, headers=headers, body=body)


class GappyTransport:
    """Pass everything on while `open`; closing it breaks what is under way."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._closed = asyncio.Event()

    def set_open(self, *, is_open: bool) -> None:
        if is_open:
            self._closed.clear()
        else:
            self._closed.set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        self._check()
        return await self._inner.request(method, path, query=query, headers=headers, body=body)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AsyncIterator[Stream]:
        self._check()
        opened = self._inner.stream(method, path, query=query, headers=headers, body=body)
        async with opened as stream:
            yield Stream(stream.status, stream.headers, self._cut(stream.chunks))

    async def close(self) -> None:
        """Leave the inner transport open: it belongs to somebody else."""

    def _check(self) -> None:
        if self._closed.is_set():
            raise TransportError("the connection is cut")

    async def _cut(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while (chunk := await self._next(chunks)) is not None:
            yield chunk

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        chunk = asyncio.ensure_future(anext(chunks, None))
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((chunk, closed), return_when=asyncio.FIRST_COMPLETED)
            if closed.done():
                raise TransportError("the connection was cut")
            return chunk.result()
        finally:
            for task in (chunk, closed):
                task.cancel()
            await asyncio.wait((chunk, closed))


class FlakyTransport(GappyTransport):
    """Fail requests at random while `chance` is above 0: before they happen, or after."""

    def __init__(self, inner: Transport, random: Random, chance: float) -> None:
        super().__init__(inner)
        self._random = random
        self.chance = chance

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        fault = self._random.random() < self.chance
        before = self._random.random() < 0.5
        if fault and before:
            return self._refuse()
        response = await super().request(method, path, query=query, headers=headers, body=body)
        if fault:
            raise TransportError("the answer was lost")
        return response

    def _refuse(self) -> Response:
        error = self._random.choice(
            [InternalError("etcd hiccup"), Conflict("try again"), Forbidden("not yet")]
        )
        return Response(error.code, {}, msgspec.json.encode(error.to_status()))
