"""Wakes the reader of a watch."""

from __future__ import annotations

import asyncio


class ReaderSignal:
    """Tells the one reader of a watch that there is something to read.

    A watch waits once for each event. `asyncio.Event` with `asyncio.timeout` would build a timer
    and three objects each time; here one timer is left running and looked at when it fires.
    """

    __slots__ = ("_deadline", "_timer", "_waiter")

    def __init__(self) -> None:
        self._waiter: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    def set(self) -> None:
        """Wake the reader, where it waits."""
        self._wake(True)

    async def wait(self, timeout: float) -> bool:
        """Wait for the next `set`; tell whether it came within `timeout` seconds."""
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + timeout
        if self._timer is not None and self._timer.when() > self._deadline:
            self.cancel()
        if self._timer is None:
            self._timer = loop.call_at(self._deadline, self._expire, loop)
        self._waiter = loop.create_future()
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def cancel(self) -> None:
        """Stop the timer; the reader waits no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if loop.time() >= self._deadline:
            self._wake(False)
        else:
            self._timer = loop.call_at(self._deadline, self._expire, loop)

    def _wake(self, came: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(came)
