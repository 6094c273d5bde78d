"""The work queue: which key is worked on next, and when.

`KeyQueue` decides and never waits; `WorkQueue` lets workers wait for what it decides.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from math import ldexp
from random import Random
from typing import Generic, TypeVar

from kubewright.client.clock import Clock
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.observer import UNOBSERVED, ControllerObserver

K = TypeVar("K", bound=Hashable)

BASE_DELAY = 0.005
MAX_DELAY = 1000.0
_JITTER = 0.1
_AGEING = 5.0


class Priority(enum.IntEnum):
    """How urgent a key is. A waiting key keeps the highest priority it was added with."""

    LOW = 0
    """What start-up and resyncs bring: nothing changed, as far as is known."""
    HIGH = 1
    """What somebody changed or deleted, and what a reconcile asked for."""


class KeyQueue(Generic[K]):
    """Decide which key is worked on next. Pure: every method is told the time in seconds.

    A key waits at most once, and is in work at most once: what is added while it is in work waits
    until `done`. Among ready keys the earliest goes first, where a low priority counts as having
    come `ageing` seconds later: urgent keys overtake, and nothing starves.
    """

    def __init__(
        self,
        random: Random,
        *,
        ageing: float = _AGEING,
        observer: ControllerObserver = UNOBSERVED,
    ) -> None:
        self._random = random
        self._observer = observer
        self._ageing = ageing
        self._ready: dict[K, tuple[float, Priority]] = {}
        # One line per priority, each in order of rank; a pair that differs from `_ready` is stale.
        self._lines: dict[Priority, deque[tuple[float, K]]] = {p: deque() for p in Priority}
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._active: dict[K, Priority | None] = {}
        self._failures: dict[K, int] = {}
        self._held: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def active(self) -> frozenset[K]:
        """The keys in work."""
        return frozenset(self._active)

    @property
    def waiting(self) -> frozenset[K]:
        """The keys that are ready, due later, or to be worked on again once they are done."""
        again = (key for key, priority in self._active.items() if priority is not None)
        return frozenset({*self._ready, *self._due, *again})

    def add(self, key: K, now: float, priority: Priority = Priority.HIGH) -> None:
        """Make a key ready, or mark it to be worked on again when it is in work."""
        if key in self._active:
            before = self._active[key]
            self._active[key] = priority if before is None else max(before, priority)
            return
        if key in self._held:
            if now < self._held[key]:
                self.add_after(key, self._held[key] - now, now)
                return
            del self._held[key]
        rank = now if priority is Priority.HIGH else now + self._ageing
        if key in self._ready and self._ready[key][0] <= rank:
            return
        self._ready[key] = (rank, priority)
        self._lines[priority].append((rank, key))
        self._observer.added(key, priority, now)

    def add_after(self, key: K, seconds: float, now: float) -> None:
        """Make a key ready later; of several delays the shortest counts."""
        due = now + max(seconds, 0.0)
        if self._due.get(key, due) < due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))

    def retry(self, key: K, now: float, *, at_least: float = 0.0) -> float:
        """Make a key ready after its back-off, which doubles each time; return the seconds.

        Delays start at 5 ms and end at 1000 s. Up to a tenth is added at random, so that objects
        that failed together do not come back together.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2**18 * 5 ms is above the maximum; a larger exponent overflows after a long outage.
        delay = ldexp(BASE_DELAY, min(failures, 18)) * (1 + _JITTER * self._random.random())
        delay = max(min(delay, MAX_DELAY), at_least)
        self._observer.retried(key)
        self.add_after(key, delay, now)
        return delay

    def hold(self, key: K, seconds: float, now: float) -> None:
        """Let a key become ready no sooner than in some seconds, whoever asks."""
        self._held[key] = now + seconds

    def forget(self, key: K) -> None:
        """Reset a key's back-off."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often in a row a key was retried."""
        return self._failures.get(key, 0)

    def promote(self, now: float) -> None:
        """Make ready every key whose delay is over."""
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key, now)

    def next_due(self) -> float | None:
        """Return the time at which `promote` has something to do."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now: float) -> K | None:
        """Take the next key into work; None when no key is ready.

        A delay that was still running for the key ends: the work that begins decides anew.
        """
        self.promote(now)
        lines = [line for line in self._lines.values() if self._skip_stale(line)]
        if not lines:
            return None
        _, key = min(lines, key=lambda line: line[0][0]).popleft()
        del self._ready[key]
        self._due.pop(key, None)
        self._active[key] = None
        self._observer.taken(key, now)
        return key

    def done(self, key: K, now: float) -> None:
        """End the work on a key; it is ready again at once if it was added meanwhile."""
        again = self._active.pop(key)
        self._observer.done(key, now)
        if again is not None:
            self.add(key, now, again)

    def _skip_stale(self, line: deque[tuple[float, K]]) -> bool:
        while line and self._ready.get(line[0][1], (None,))[0] != line[0][0]:
            line.popleft()
        return bool(line)


class WorkQueue(Generic[K]):
    """Let workers wait for keys. All time passes on the injected clock.

    `run` must run for delayed keys to become ready. `shut_down` ends `get` for every worker; what
    still waits is not worked on: state is level-triggered, so the next start finds it again.
    """

    def __init__(
        self, clock: Clock, random: Random, *, observer: ControllerObserver = UNOBSERVED
    ) -> None:
        self._clock = clock
        self._keys: KeyQueue[K] = KeyQueue(random, observer=observer)
        self._getters: deque[asyncio.Future[K | None]] = deque()
        self._timer = Alarm(clock)
        self._wakes_at: float | None = None
        self._idle = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: K, priority: Priority = Priority.HIGH) -> None:
        """Ask for work on a key as soon as a worker is free."""
        self._keys.add(key, self._clock.monotonic(), priority)
        self._set_timer()
        self._dispatch()

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for work on a key later."""
        self._keys.add_after(key, seconds, self._clock.monotonic())
        self._set_timer()

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Ask for work on a key after its back-off, `at_least` seconds; return the seconds."""
        delay = self._keys.retry(key, self._clock.monotonic(), at_least=at_least)
        self._set_timer()
        return delay

    def hold(self, key: K, seconds: float) -> None:
        """Let a key become ready no sooner than in some seconds, whoever asks."""
        self._keys.hold(key, seconds, self._clock.monotonic())

    def forget(self, key: K) -> None:
        """Reset a key's back-off."""
        self._keys.forget(key)

    def failures(self, key: K) -> int:
        """Return how often in a row a key was retried."""
        return self._keys.failures(key)

    async def get(self) -> K | None:
        """Wait for a key and take it into work; None when the queue is shut down.

        The caller must call `done` with it.
        """
        if self._closed:
            return None
        getter: asyncio.Future[K | None] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        self._dispatch()
        try:
            return await getter
        except asyncio.CancelledError:
            # A key may have been handed over just before the worker was cancelled.
            if getter.done() and not getter.cancelled():
                key = getter.result()
                if key is not None:
                    self.done(key)
                    self.add(key)
            raise

    def done(self, key: K) -> None:
        """End the work on a key."""
        self._keys.done(key, self._clock.monotonic())
        if not self._keys.active:
            self._idle.set()
        self._set_timer()
        self._dispatch()

    def shut_down(self) -> None:
        """Give no more keys to workers."""
        self._closed = True
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)

    async def drained(self) -> None:
        """Wait until no key is in work."""
        while self._keys.active:
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Make delayed keys ready in time; ends by cancellation."""
        while True:
            due = self._wakes_at = self._keys.next_due()
            await self._timer.wait(None if due is None else due - self._clock.monotonic())
            self._keys.promote(self._clock.monotonic())
            self._dispatch()

    def _set_timer(self) -> None:
        # A key that is held becomes a delayed one by any way, so all of them come here.
        due = self._keys.next_due()
        if due is not None and (self._wakes_at is None or due < self._wakes_at):
            self._timer.set()

    def _dispatch(self) -> None:
        while self._getters and not self._closed:
            if self._getters[0].done():
                self._getters.popleft()
                continue
            key = self._keys.take(self._clock.monotonic())
            if key is None:
                return
            self._getters.popleft().set_result(key)
