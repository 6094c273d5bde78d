"""The manager: one cache, the controllers on it, and whatever else runs beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Protocol, runtime_checkable

from kubewright.cache.cache import Cache
from kubewright.client.client import Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.context import Environment
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventBroadcaster
from kubewright.runtime.leader_election import LeaderElection, LeaderElector
from kubewright.runtime.observer import NoObserver, Observer

_SYNC_PATIENCE = 5.0
"""Seconds after which it is said what a start waits for."""

_logger = logging.getLogger(__name__)


class Runnable(Protocol):
    """Anything that runs for as long as the manager does, until it is cancelled."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


@runtime_checkable
class ReadinessCheck(Protocol):
    """A runnable that may keep its process from being ready."""

    def find_problems(self) -> Sequence[str]:
        """Return one sentence for each reason not to be ready."""
        ...


class Manager:
    """Run controllers and other runnables on one cache.

    Start: caches list and watch; when all are synced, controllers and runnables start. Stop, by
    cancelling `run`: workers finish the object in work within `grace_period`, then runnables end,
    then caches. Whatever is not finished is found again by the next start. A runnable that fails
    ends the manager with its error.

    With `leader_election`, controllers and runnables start when this process leads; until then the
    caches are kept warm. `client` then writes only while it leads. A manager that loses the
    leadership cancels its controllers, without a grace period, and ends with LeadershipLost.
    What does not need the leadership starts before the caches and ends after them: a webhook, for
    one, may be what lets the API server list an object.

        manager = Manager(client)
        operator.add_to(manager)
        await manager.run()

    Arguments:
        client: asks the API server, for the caches too.
        clock: what everything waits by.
        random: where jitter comes from.
        namespaces: what the caches hold; by default all namespaces.
        grace_period: how long workers may finish what they do when the manager stops.
        leader_election: which Lease decides; by default nobody is asked.
        max_concurrent_reconciles: workers of each controller, in place of its own number.
        observer: hears of queues, reconciles and leadership; see `kubewright.telemetry`.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        namespaces: Sequence[str] | None = None,
        grace_period: timedelta = timedelta(seconds=30),
        leader_election: LeaderElection | None = None,
        max_concurrent_reconciles: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.clock: Clock = SystemClock() if clock is None else clock
        self.random = Random() if random is None else random
        self._observer = NoObserver() if observer is None else observer
        self._elector = self._build_elector(client, leader_election)
        self.client = client if self._elector is None else self._elector.fence(client)
        self.cache = Cache(self.client, clock=self.clock, random=self.random, namespaces=namespaces)
        self._observer.attached(self.cache)
        self._broadcaster = EventBroadcaster(self.client, clock=self.clock)
        self._grace_period = grace_period
        self._controllers: list[Controller] = []
        self._runnables: list[Runnable] = []
        self._everywhere: list[Runnable] = []
        self._workers = max_concurrent_reconciles
        self._synced = False
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether all caches are synced: the workers run, or stand by for the leadership."""
        return self._synced

    @property
    def environment(self) -> Environment:
        """What the manager lends to its controllers."""
        return Environment(
            self.client,
            self.cache,
            self.clock,
            self.random,
            self._broadcaster,
            self._observer,
        )

    @property
    def readiness_checks(self) -> Sequence[ReadinessCheck]:
        """The runnables that know by themselves when they are not ready."""
        runnables = (*self._everywhere, *self._runnables)
        return [runnable for runnable in runnables if isinstance(runnable, ReadinessCheck)]

    def add(self, runnable: Controller | Runnable, *, needs_leader_election: bool = True) -> None:
        """Add a controller or another runnable, before `run`.

        Without `needs_leader_election` a runnable runs whether this process leads or not, with a
        client of its own: that of the manager writes only while it leads.

        Raises:
            RuntimeError: the controller belongs to a manager already.
        """
        if isinstance(runnable, Controller):
            if self._workers is not None:
                runnable.workers = self._workers
            runnable.attach(self.environment)
            self._controllers.append(runnable)
        elif needs_leader_election:
            self._runnables.append(runnable)
        else:
            self._everywhere.append(runnable)

    async def run(self) -> None:
        """Run until cancelled, or until a part fails.

        Raises:
            ExceptionGroup: a cache, a runnable or a controller failed, or the leadership was lost.
        """
        try:
            async with asyncio.TaskGroup() as group:
                others = [_start(group, runnable) for runnable in self._everywhere]
                try:
                    await self._run_on_cache()
                finally:
                    for other in others:
                        other.cancel()
        finally:
            self._synced = False
            self._ready.clear()

    async def _run_on_cache(self) -> None:
        async with asyncio.TaskGroup() as group:
            cache = group.create_task(self.cache.run(), name="cache")
            await self._wait_synced()
            self._synced = True
            try:
                await self._run_when_leading()
            finally:
                cache.cancel()

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

    def _build_elector(
        self, client: Client, election: LeaderElection | None
    ) -> LeaderElector | None:
        if election is None:
            return None
        return LeaderElector(
            client, election, clock=self.clock, random=self.random, observer=self._observer
        )

    async def _run_when_leading(self) -> None:
        if self._elector is None:
            await self._run_parts()
        else:
            await self._elector.run(self._run_parts)

    async def _run_parts(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._broadcaster.run(), name="events")
            for runnable in self._runnables:
                _start(group, runnable)
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)
            self._ready.set()
            try:
                # Ends by cancellation alone: from outside, or by the group when a part fails.
                await asyncio.Event().wait()
            finally:
                await self._drain()

    async def _drain(self) -> None:
        if self._elector is not None and not self._elector.is_leading:
            return
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


def _start(group: asyncio.TaskGroup, runnable: Runnable) -> asyncio.Task[None]:
    return group.create_task(runnable.run(), name=type(runnable).__name__)
