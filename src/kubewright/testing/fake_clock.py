"""A clock that stands until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

_START = datetime(2026, 1, 1, tzinfo=UTC)
# Whoever wakes may do this many steps, such as requests in memory, before time moves on.
_TURNS = 20


class FakeClock:
    """A `Clock` whose time passes only in `advance`.

    Sleepers wake in the order of their times, each at its own time, so that what sleeps again in
    between is seen: `advance(60)` runs a loop of ten-second sleeps six times. Between two of them
    the other tasks get some turns of the event loop; what needs more of them, or a real network,
    is to be waited for with `eventually`.
    """

    def __init__(self, start: datetime = _START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._jumped = 0.0
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._arrived = asyncio.Event()

    def now(self) -> datetime:
        """Return the wall time: the start, what passed, and all jumps."""
        return self._start + timedelta(seconds=self._elapsed + self._jumped)

    def monotonic(self) -> float:
        """Return the seconds that passed."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved on so far; zero or less only lets other tasks run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waking = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleeping, (self._elapsed + seconds, next(self._numbers), waking))
        self._arrived.set()
        await waking

    @property
    def sleepers(self) -> list[float]:
        """How many seconds each sleeper has still to wait, the next one first."""
        return [due - self._elapsed for due, _, waking in sorted(self._sleeping) if _waits(waking)]

    async def wait_sleepers(self, count: int = 1) -> None:
        """Wait until at least so many tasks sleep."""
        while len(self.sleepers) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, and wake whoever is due on the way.

        Raises:
            ValueError: time does not go back; `jump` moves the wall time alone.
        """
        if seconds < 0:
            raise ValueError("time does not go back: jump moves the wall time alone")
        end = self._elapsed + seconds
        await _settle()
        while self._sleeping and self._sleeping[0][0] <= end:
            due, _, waking = heapq.heappop(self._sleeping)
            self._elapsed = max(self._elapsed, due)
            if _waits(waking):
                waking.set_result(None)
                await _settle()
        self._elapsed = end

    def jump(self, seconds: float) -> None:
        """Set the wall time forward or back, as an administrator or NTP does; nobody wakes."""
        self._jumped += seconds


def _waits(waking: asyncio.Future[None]) -> bool:
    return not waking.done()


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
