"""An event that can be awaited for a bounded time on an injected clock."""

from __future__ import annotations

import asyncio

from kubewright.client.clock import Clock


class Alarm:
    """Wake one sleeper early.

    `asyncio.timeout` measures the loop's time; what waits here must follow the clock that was
    injected, so that a simulation can run hours of back-off in no time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake whoever waits, now or next."""
        self._event.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until set, `seconds` at most; tell whether it was set, and reset it."""
        if not self._event.is_set() and (seconds is None or seconds > 0):
            await self._race(seconds)
        rang = self._event.is_set()
        self._event.clear()
        return rang

    async def _race(self, seconds: float | None) -> None:
        if seconds is None:
            await self._event.wait()
            return
        racers = (
            asyncio.ensure_future(self._event.wait()),
            asyncio.ensure_future(self._clock.sleep(seconds)),
        )
        try:
            await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for racer in racers:
                racer.cancel()
            await asyncio.gather(*racers, return_exceptions=True)
