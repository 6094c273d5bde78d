"""When addresses that end are no longer led to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Set


class Departures:
    """Knows the addresses that Services lead to and that stay, as of the last round of rules.

    A pod that is asked to end is first taken out of its EndpointSlices, then out of the rules of
    each node. Who stops its server before that refuses connections that are on their way.
    """

    def __init__(self) -> None:
        self._staying: Set[str] = frozenset()
        self._noted = asyncio.Event()

    def note(self, staying: Set[str]) -> None:
        """Take the addresses that stay, once the rules lead to no others."""
        self._staying = staying
        self._noted.set()
        self._noted = asyncio.Event()

    async def wait(self, address: str, seconds: float) -> None:
        """Wait until an address stays no more, at most for a time; others are not waited for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while address in self._staying:
                    await self._noted.wait()
