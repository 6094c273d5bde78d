"""The clock that everything above the API waits by, so that tests and simulations can own time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tell the time and wait. Implementations may run faster than the world."""

    def now(self) -> datetime:
        """Return the wall time, with a zone: for timestamps that others read."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards: for measuring how long something took."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only lets other tasks run."""
        ...


class SystemClock:
    """The clock of the machine and of the running event loop."""

    def now(self) -> datetime:
        """Return the wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds of the machine's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(max(0.0, seconds))
