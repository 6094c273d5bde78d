"""An open watch that can be cut, kept back, or ended by an error event."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kubewright.api.errors import TransportError
from kubewright.client.clock import Clock
from kubewright.runtime.alarm import Alarm
from kubewright.testing.call import Call


class FaultyStream:
    """Pass the pieces of an answer on, as long as nobody interferes.

    The pieces of a watch are whole lines, so that what is put in between stands between two events.
    `lag` says by how many seconds pieces are late, asked anew whenever one is due.
    """

    def __init__(self, call: Call, clock: Clock, lag: Callable[[Call], float]) -> None:
        self.call = call
        self._clock = clock
        self._lag = lag
        self._alarm = Alarm(clock)
        self._arrived: deque[tuple[float, bytes]] = deque()
        self._injected: deque[bytes] = deque()
        # How the stream ends: None while it goes on, StopAsyncIteration for a proper end.
        self._source_end: Exception | None = None
        self._cut: Exception | None = None
        self._frozen = False

    def drop(self, *, clean: bool) -> None:
        """End the stream now, properly or as a broken connection; what is on its way is lost."""
        broken = TransportError(f"{self.call}: a fault cut the connection")
        self._cut = StopAsyncIteration() if clean else broken
        self._alarm.set()

    def end_with(self, line: bytes) -> None:
        """Bring one line more, then end properly; what is on its way is lost."""
        self._injected.append(line)
        self.drop(clean=True)

    def freeze(self) -> None:
        """Bring nothing any more, not even an end."""
        self._frozen = True

    def wake(self) -> None:
        """Look anew at what is due: a lag has changed."""
        self._alarm.set()

    @asynccontextmanager
    async def reading(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read the real stream while the block lasts, and lend its faulty copy."""
        reading = asyncio.create_task(self._read(chunks))
        try:
            yield self._pieces()
        finally:
            reading.cancel()
            await asyncio.wait((reading,))

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        tail = b""
        try:
            async for chunk in chunks:
                whole, tail = _split(tail + chunk) if self.call.is_watch else (chunk, b"")
                self._arrive(whole)
            self._arrive(tail)
            self._source_end = StopAsyncIteration()
        # Whatever ended the source is raised where it is read.
        except Exception as error:
            self._source_end = error
        self._alarm.set()

    def _arrive(self, piece: bytes) -> None:
        if piece:
            self._arrived.append((self._clock.monotonic(), piece))
            self._alarm.set()

    async def _pieces(self) -> AsyncIterator[bytes]:
        while True:
            delay = self._next_due()
            if self._frozen:
                await asyncio.Event().wait()
            elif self._injected:
                yield self._injected.popleft()
            elif (end := self._cut or (None if self._arrived else self._source_end)) is not None:
                if isinstance(end, StopAsyncIteration):
                    return
                raise end
            elif delay is not None and delay <= 0:
                yield self._arrived.popleft()[1]
            else:
                await self._alarm.wait(delay)

    def _next_due(self) -> float | None:
        """Return the seconds until the next piece is due; None where there is none."""
        if not self._arrived:
            return None
        return self._arrived[0][0] + self._lag(self.call) - self._clock.monotonic()


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Split after the last whole line."""
    border = data.rfind(b"\n") + 1
    return data[:border], data[border:]
