"""The work queue: which key is worked on next, and when.

`KeyQueue` decides and never waits; `WorkQueue` lets workers wait for what it decides.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from math import ldexp
from random import Random
from typing import Generic, NamedTuple, TypeVar

from kubewright.client.clock import Clock
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.fair_line import FairLine, Ticket
from kubewright.runtime.observer import UNOBSERVED, ControllerObserver
from kubewright.runtime.retry_budget import RetryBudget

K = TypeVar("K", bound=Hashable)

BASE_DELAY = 0.005
MAX_DELAY = 1000.0
_JITTER = 0.1
_AGEING = 5.0
_PATIENCE = 4
"""How many more urgent keys go before an aged one."""
_KEYS_IN_A_ROW = 8
"""How many keys are given out before every other task of the loop has had its turn."""
# Beyond 2**18 * 5 ms the maximum holds anyway; a larger exponent overflows after a long outage.
_LAST_DOUBLING = 18


class Priority(enum.IntEnum):
    """How urgent a key is. A waiting key keeps the highest priority it was added with."""

    LOW = 0
    """What start-up and resyncs bring: nothing changed, as far as is known."""
    HIGH = 1
    """What somebody changed, and what a reconcile asked for."""
    URGENT = 2
    """What is being deleted: somebody waits for its end, and often a namespace or an owner."""


class _Delayed(NamedTuple, Generic[K]):
    due: float
    order: int
    key: K
    priority: Priority
    is_retry: bool


class KeyQueue(Generic[K]):
    """Decide which key is worked on next. Pure: every method is told the time in seconds.

    A key waits at most once, and is in work at most once: what is added while it is in work waits
    until `done`. The most urgent ready keys go first. Among equals the groups that `group` puts
    keys in (namespaces) take turns, and within a group the earliest goes first. Nothing starves:
    keys that have waited for `ageing` seconds get every fifth turn, whatever comes before them.

    Retries need a token of `budget`, so that many failing keys do not add up to a storm. What
    changed meanwhile, and what a reconcile asked for with a delay, needs none.
    """

    def __init__(
        self,
        random: Random,
        *,
        ageing: float = _AGEING,
        observer: ControllerObserver = UNOBSERVED,
        group: Callable[[K], Hashable] | None = None,
        budget: RetryBudget | None = None,
    ) -> None:
        self._random = random
        self._observer = observer
        self._ageing = ageing
        self._group = group
        self._budget = RetryBudget() if budget is None else budget
        # A ticket or delay that is not the one in these dicts is stale.
        self._ready: dict[K, Ticket[K]] = {}
        self._due: dict[K, _Delayed[K]] = {}
        # Indexed by priority: hashing an enum costs more than the rest of an operation.
        self._lines: list[FairLine[K]] = [FairLine(_PATIENCE) for _ in Priority]
        self._most_urgent_first = self._lines[::-1]
        self._heap: list[_Delayed[K]] = []
        self._gate: deque[_Delayed[K]] = deque()
        self._order = itertools.count()
        self._active: dict[K, int] = {}
        self._again: dict[K, Priority] = {}
        self._failures: dict[K, int] = {}
        self._held: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def active(self) -> frozenset[K]:
        """The keys in work."""
        return frozenset(self._active)

    @property
    def is_idle(self) -> bool:
        """Tell whether no key is in work."""
        return not self._active

    @property
    def waiting(self) -> frozenset[K]:
        """The keys that are ready, due later, or to be worked on again once they are done."""
        return frozenset({*self._ready, *self._due, *self._again})

    @property
    def delayed(self) -> dict[K, Priority]:
        """The keys that are due later, and how urgent they will be."""
        return {key: delayed.priority for key, delayed in self._due.items()}

    def add(self, key: K, now: float, priority: Priority = Priority.HIGH) -> None:
        """Make a key ready, or mark it to be worked on again when it is in work."""
        if key in self._active:
            self._again[key] = max(priority, self._again.get(key, priority))
            return
        before = self._ready.get(key)
        if before is not None and before.priority >= priority:
            return
        if self._held and key in self._held:
            if now < self._held[key]:
                self.add_after(key, self._held[key] - now, now, priority)
                return
            del self._held[key]
        ticket = Ticket(now if before is None else before.since, priority, key)
        self._ready[key] = ticket
        group = None if self._group is None else self._group(key)
        self._lines[priority].append(group, ticket)
        self._observer.added(key, priority, now)

    def add_after(
        self, key: K, seconds: float, now: float, priority: Priority = Priority.HIGH
    ) -> None:
        """Make a key ready later; of several delays the shortest counts."""
        self._delay(key, now + max(seconds, 0.0), priority, is_retry=False)

    def retry(self, key: K, now: float, *, at_least: float = 0.0) -> float:
        """Make a key ready after its back-off, which doubles each time; return the seconds.

        Delays start at 5 ms and end at 1000 s. Up to a tenth is added at random, so that objects
        that failed together do not come back together. A key in work keeps its priority.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        doubled = ldexp(BASE_DELAY, min(failures, _LAST_DOUBLING))
        delay = max(min(doubled * (1 + _JITTER * self._random.random()), MAX_DELAY), at_least)
        self._observer.retried(key)
        priority = Priority(self._active.get(key, Priority.HIGH))
        self._delay(key, now + delay, priority, is_retry=True)
        return delay

    def hold(self, key: K, seconds: float, now: float) -> None:
        """Let a key become ready no sooner than in some seconds, whoever asks."""
        self._held[key] = now + seconds

    def forget(self, key: K) -> None:
        """Reset a key's back-off: its work succeeded, or waits for a change."""
        if self._held:
            self._held.pop(key, None)
        if self._failures.pop(key, None) is not None:
            self._budget.give_back()

    def failures(self, key: K) -> int:
        """Return how often in a row a key was retried."""
        return self._failures.get(key, 0)

    def promote(self, now: float) -> None:
        """Make ready every key whose delay is over, retries as far as the budget goes."""
        while self._heap and self._heap[0].due <= now:
            delayed = heapq.heappop(self._heap)
            if self._due.get(delayed.key) is not delayed:
                continue
            if delayed.is_retry:
                self._gate.append(delayed)
            else:
                self._release(delayed, now)
        while self._has_gated() and self._budget.take(now):
            self._release(self._gate.popleft(), now)

    def next_due(self) -> float | None:
        """Return the time at which `promote` has something to do."""
        while self._heap and self._due.get(self._heap[0].key) is not self._heap[0]:
            heapq.heappop(self._heap)
        due = self._heap[0].due if self._heap else None
        if not self._has_gated():
            return due
        admitted = self._budget.next_at()
        return admitted if due is None else min(due, admitted)

    def take(self, now: float) -> K | None:
        """Take the next key into work; None when no key is ready.

        A delay that was still running for the key ends: the work that begins decides anew.
        """
        self.promote(now)
        ticket = self._choose(now)
        if ticket is None:
            return None
        key = ticket.key
        self._lines[ticket.priority].serve()
        del self._ready[key]
        if self._due:
            self._due.pop(key, None)
        self._active[key] = ticket.priority
        self._observer.taken(key, now)
        return key

    def done(self, key: K, now: float) -> None:
        """End the work on a key; it is ready again at once if it was added meanwhile."""
        del self._active[key]
        self._observer.done(key, now)
        again = self._again.pop(key, None)
        if again is not None:
            self.add(key, now, again)

    def _choose(self, now: float) -> Ticket[K] | None:
        chosen: Ticket[K] | None = None
        for line in self._most_urgent_first:
            ticket = line.first(self._ready)
            if ticket is None:
                continue
            is_aged = line.passed >= _PATIENCE and now - ticket.since >= self._ageing
            if chosen is None or is_aged:
                chosen = ticket
            else:
                line.passed += 1
        return chosen

    def _delay(self, key: K, due: float, priority: Priority, *, is_retry: bool) -> None:
        before = self._due.get(key)
        if before is not None:
            if before.due <= due and before.priority >= priority:
                return
            # The sooner of both delays, the higher of both priorities.
            if before.due <= due:
                due, is_retry = before.due, before.is_retry
            priority = max(priority, before.priority)
        delayed = _Delayed(due, next(self._order), key, priority, is_retry)
        self._due[key] = delayed
        heapq.heappush(self._heap, delayed)

    def _release(self, delayed: _Delayed[K], now: float) -> None:
        del self._due[delayed.key]
        self.add(delayed.key, now, delayed.priority)

    def _has_gated(self) -> bool:
        while self._gate and self._due.get(self._gate[0].key) is not self._gate[0]:
            self._gate.popleft()
        return bool(self._gate)


class WorkQueue(Generic[K]):
    """Let workers wait for keys. All time passes on the injected clock.

    A key waits at most once and is in work at most once; the most urgent goes first, groups take
    turns, and what has waited for 5 s gets every fifth turn. `group` puts a key into its group;
    by default all are in one.

    `run` must run for delayed keys to become ready. `shut_down` ends `get` for every worker; what
    still waits is not worked on: state is level-triggered, so the next start finds it again.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        observer: ControllerObserver = UNOBSERVED,
        group: Callable[[K], Hashable] | None = None,
    ) -> None:
        self._clock = clock
        self._keys: KeyQueue[K] = KeyQueue(random, observer=observer, group=group)
        self._getters: deque[asyncio.Future[K | None]] = deque()
        self._timer = Alarm(clock)
        self._wakes_at: float | None = None
        self._idle = asyncio.Event()
        self._closed = False
        self._in_a_row = 0

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def delayed(self) -> dict[K, Priority]:
        """The keys that are due later, and how urgent they will be."""
        return self._keys.delayed

    def add(self, key: K, priority: Priority = Priority.HIGH) -> None:
        """Ask for work on a key as soon as a worker is free; its highest priority counts."""
        self._keys.add(key, self._clock.monotonic(), priority)
        self._set_timer()
        self._dispatch()

    def add_after(self, key: K, seconds: float, priority: Priority = Priority.HIGH) -> None:
        """Ask for work on a key in some seconds, with a priority, unless it is worked on before."""
        self._keys.add_after(key, seconds, self._clock.monotonic(), priority)
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
        if not self._getters and (key := self._keys.take(self._clock.monotonic())) is not None:
            await self._let_others_run(key)
            return key
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
                    self._give_back(key)
            raise

    def done(self, key: K) -> None:
        """End the work on a key."""
        self._keys.done(key, self._clock.monotonic())
        if self._keys.is_idle:
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
        while not self._keys.is_idle:
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Make delayed keys ready in time; ends by cancellation."""
        while True:
            due = self._wakes_at = self._keys.next_due()
            await self._timer.wait(None if due is None else due - self._clock.monotonic())
            self._keys.promote(self._clock.monotonic())
            self._dispatch()

    async def _let_others_run(self, key: K) -> None:
        # Work that finds nothing to do never waits: a restart with many objects would keep the
        # loop from watches, leases and probes until the last one.
        self._in_a_row += 1
        if self._in_a_row < _KEYS_IN_A_ROW:
            return
        self._in_a_row = 0
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._give_back(key)
            raise

    def _give_back(self, key: K) -> None:
        self.done(key)
        self.add(key)

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
