"""The manager: one cache, the controllers on it, and whatever else runs beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Protocol

from kubewright.cache.cache import Cache
from kubewright.client.client import Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.context import Environment
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventBroadcaster

_SYNC_PATIENCE = 5.0
"""Seconds after which it is said what a start waits for."""

_logger = logging.getLogger(__name__)


class Runnable(Protocol):
    """Anything that runs for as long as the manager does, until it is cancelled."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class Manager:
    """Run controllers and other runnables on one cache.

    Start: caches list and watch; when all are synced, controllers and runnables start. Stop, by
    cancelling `run`: workers finish the object in work within `grace_period`, then runnables end,
    then caches. Whatever is not finished is found again by the next start. A runnable that fails
    ends the manager with its error.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        namespaces: Sequence[str] | None = None,
        grace_period: timedelta = timedelta(seconds=30),
    ) -> None:
        self.client = client
        self.clock: Clock = SystemClock() if clock is None else clock
        self.random = Random() if random is None else random
        self.cache = Cache(client, clock=self.clock, random=self.random, namespaces=namespaces)
        self._broadcaster = EventBroadcaster(client, clock=self.clock)
        self._grace_period = grace_period
        self._controllers: list[Controller] = []
        self._runnables: list[Runnable] = []
        self._ready = asyncio.Event()

    @property
    def environment(self) -> Environment:
        """What the manager lends to its controllers."""
        return Environment(self.client, self.cache, self.clock, self.random, self._broadcaster)

    def add(self, runnable: Controller | Runnable) -> None:
        """Add a controller or another runnable, before `run`.

        Raises:
            RuntimeError: the controller belongs to a manager already.
        """
        if isinstance(runnable, Controller):
            runnable.attach(self.environment)
            self._controllers.append(runnable)
        else:
            self._runnables.append(runnable)

    async def run(self) -> None:
        """Run until cancelled, or until a part fails.

        Raises:
            ExceptionGroup: a cache, a runnable or a controller failed.
        """
        try:
            async with asyncio.TaskGroup() as group:
                cache = group.create_task(self.cache.run(), name="cache")
                await self._wait_synced()
                try:
                    await self._run_parts()
                finally:
                    cache.cancel()
        finally:
            self._ready.clear()

    async def wait_ready(self) -> None:
        """Wait until all caches are synced and all workers started."""
        await self._ready.wait()

    async def _wait_synced(self) -> None:
        """Wait for the caches; say every few seconds what keeps them, such as a missing right."""
        synced = Alarm(self.clock)
        waiting = asyncio.create_task(self.cache.wait_synced())
        waiting.add_done_callback(lambda _: synced.set())
        try:
            while not await synced.wait(_SYNC_PATIENCE):
                for reflector in self.cache.reflectors:
                    if reflector.failure is not None:
                        _logger.warning("not ready: %s: %s", reflector, reflector.failure)
        finally:
            waiting.cancel()
            await asyncio.wait((waiting,))

    async def _run_parts(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._broadcaster.run(), name="events")
            for runnable in self._runnables:
                group.create_task(runnable.run(), name=type(runnable).__name__)
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)
            self._ready.set()
            try:
                # Ends by cancellation alone: from outside, or by the group when a part fails.
                await asyncio.Event().wait()
            finally:
                await self._drain()

    async def _drain(self) -> None:
        over = Alarm(self.clock)
        finishing = asyncio.create_task(self._finish())
        finishing.add_done_callback(lambda _: over.set())
        try:
            if not await over.wait(self._grace_period.total_seconds()):
                _logger.warning("workers did not finish within %s", self._grace_period)
        finally:
            finishing.cancel()
            await asyncio.wait((finishing,))

    async def _finish(self) -> None:
        await asyncio.gather(*(controller.drain() for controller in self._controllers))
        await self._broadcaster.flush()
