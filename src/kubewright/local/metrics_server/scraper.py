"""Asking the nodes what their pods use, through the API server."""

from __future__ import annotations

import asyncio
import logging

from kubewright.api.errors import KubewrightError
from kubewright.cache.entry import Change, ChangeType
from kubewright.cache.store import Store
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.local.metrics_server.exposition import read_exposition
from kubewright.local.metrics_server.usage_store import UsageStore
from kubewright.runtime.alarm import Alarm

PERIOD = 15.0
FIRST_PERIOD = 5.0
"""The time to the second look at a node: before that there are rates of young containers only."""

_PATIENCE = 10.0

_logger = logging.getLogger(__name__)


class Scraper:
    """Keeps a `UsageStore` filled. A node that fails is told of once, until it answers again."""

    def __init__(self, client: Client, clock: Clock, nodes: Store, usage: UsageStore) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._usage = usage
        self._failing: set[str] = set()
        self._alarm = Alarm(clock)

    async def run(self) -> None:
        """Look at all nodes again and again, and at once when one appears, until cancelled."""
        forget = self._nodes.subscribe(self._note_change)
        try:
            while True:
                await self.look()
                await self._alarm.wait(PERIOD if self._usage.is_settled else FIRST_PERIOD)
        finally:
            forget()

    def _note_change(self, change: Change) -> None:
        if change.type is ChangeType.ADDED:
            self._alarm.set()

    async def look(self) -> None:
        """Look at all nodes once."""
        names = {entry.meta.name for entry in self._nodes.list()}
        await asyncio.gather(*(self._look_at(name) for name in names))
        self._usage.retain(names, self._clock.now())
        self._failing &= names

    async def _look_at(self, name: str) -> None:
        path = f"/api/v1/nodes/{name}/proxy/metrics/resource"
        try:
            async with asyncio.timeout(_PATIENCE):
                body = await self._client.request("GET", path)
            reading = read_exposition(body.decode(errors="replace"), self._clock.now())
        except (KubewrightError, TimeoutError, ValueError, OverflowError) as error:
            if name not in self._failing:
                reason = str(error) or f"no answer in {_PATIENCE:.0f} s"
                _logger.warning("node %s does not tell its usage: %s", name, reason)
            self._failing.add(name)
            return
        self._failing.discard(name)
        self._usage.note(name, reading)
