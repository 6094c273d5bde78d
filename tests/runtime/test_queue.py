"""The work queue: no key is lost, and none is given to two workers."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubewright.client.clock import SystemClock
from kubewright.runtime.queue import KeyQueue, Priority, WorkQueue

KEYS = st.sampled_from("abcd")
DELAYS = st.floats(min_value=0, max_value=20)


class QueueMachine(RuleBasedStateMachine):
    """Drive a queue at random; `wanted` is what must still be worked on."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: KeyQueue[str] = KeyQueue(Random(0))
        self.now = 0.0
        self.wanted: set[str] = set()
        self.working: set[str] = set()

    @rule(key=KEYS, priority=st.sampled_from(Priority))
    def add(self, key: str, priority: Priority) -> None:
        self.queue.add(key, self.now, priority)
        self.wanted.add(key)

    @rule(key=KEYS, delay=DELAYS)
    def add_after(self, key: str, delay: float) -> None:
        self.queue.add_after(key, delay, self.now)
        self.wanted.add(key)

    @rule(key=KEYS, delay=DELAYS)
    def hold(self, key: str, delay: float) -> None:
        self.queue.hold(key, delay, self.now)

    @rule(seconds=DELAYS)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        key = self.queue.take(self.now)
        if key is None:
            return
        assert key in self.wanted
        assert key not in self.working, "two workers on one key"
        self.working.add(key)
        self.wanted.discard(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        if fails:
            self.queue.retry(key, self.now)
            self.wanted.add(key)
        else:
            self.queue.forget(key)
        self.working.discard(key)
        self.queue.done(key, self.now)

    @invariant()
    def loses_nothing(self) -> None:
        assert self.queue.waiting == self.wanted
        assert self.queue.active == self.working

    def teardown(self) -> None:
        for key in self.working:
            self.queue.done(key, self.now)
        end, taken = self.now + 2000, set()
        while (left := self.queue.take(end)) is not None:
            taken.add(left)
            self.queue.done(left, end)
        assert taken == self.wanted


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def build_queue(ageing: float = 5.0) -> KeyQueue[str]:
    return KeyQueue(Random(0), ageing=ageing)


def take_all(queue: KeyQueue[str], now: float) -> list[str]:
    taken = []
    while (key := queue.take(now)) is not None:
        taken.append(key)
    return taken


def test_gives_each_key_once_in_order_of_arrival() -> None:
    queue = build_queue()
    for key in "abab":
        queue.add(key, 0.0)
    assert take_all(queue, 0.0) == ["a", "b"]


def test_urgent_keys_overtake() -> None:
    queue = build_queue()
    queue.add("resync", 0.0, Priority.LOW)
    queue.add("change", 1.0, Priority.HIGH)
    assert take_all(queue, 1.0) == ["change", "resync"]


def test_age_lifts_a_low_priority() -> None:
    queue = build_queue(ageing=5.0)
    queue.add("resync", 0.0, Priority.LOW)
    queue.add("change", 6.0, Priority.HIGH)
    assert take_all(queue, 6.0) == ["resync", "change"]


def test_a_key_that_becomes_urgent_overtakes() -> None:
    queue = build_queue()
    queue.add("a", 0.0, Priority.LOW)
    queue.add("b", 0.0, Priority.LOW)
    queue.add("b", 0.0, Priority.HIGH)
    assert take_all(queue, 0.0) == ["b", "a"]


def test_what_arrives_during_work_is_worked_on_again() -> None:
    queue = build_queue()
    queue.add("a", 0.0)
    assert queue.take(0.0) == "a"
    queue.add("a", 0.0)
    assert queue.take(0.0) is None
    queue.done("a", 0.0)
    assert queue.take(0.0) == "a"


def test_a_change_replaces_a_delay() -> None:
    queue = build_queue()
    queue.add_after("a", 60, 0.0)
    queue.add("a", 1.0)
    assert queue.take(1.0) == "a"
    queue.done("a", 1.0)
    assert queue.next_due() is None


def test_the_shortest_delay_counts() -> None:
    queue = build_queue()
    queue.add_after("a", 10, 0.0)
    queue.add_after("a", 2, 0.0)
    queue.add_after("a", 5, 0.0)
    assert queue.next_due() == 2
    assert queue.take(1.9) is None
    assert queue.take(2.0) == "a"


def test_back_off_doubles_from_5_ms_to_1000_s() -> None:
    queue = build_queue()
    delays = [queue.retry("a", 0.0) for _ in range(2000)]
    assert 0.005 <= delays[0] <= 0.0055
    assert all(0.005 * 2**n <= delays[n] <= 0.0055 * 2**n for n in range(17))
    assert max(delays) == delays[-1] == 1000.0


def test_forgetting_resets_the_back_off() -> None:
    queue = build_queue()
    for _ in range(5):
        queue.retry("a", 0.0)
    assert queue.failures("a") == 5
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.retry("a", 0.0) < 0.006


def test_a_held_key_becomes_ready_later_whoever_asks() -> None:
    queue = build_queue()
    queue.add("a", 0.0)
    assert queue.take(0.0) == "a"
    queue.add("a", 0.0)
    queue.hold("a", 2.0, 0.0)
    queue.done("a", 0.0)
    queue.add("a", 1.0)
    assert queue.take(1.9) is None
    assert queue.take(2.0) == "a"
    queue.done("a", 2.0)
    queue.add("a", 2.0)
    assert queue.take(2.0) == "a"


def test_what_the_server_asks_lengthens_the_back_off() -> None:
    assert build_queue().retry("a", 0.0, at_least=7) == 7


async def test_a_worker_waits_for_a_key() -> None:
    queue: WorkQueue[str] = WorkQueue(SystemClock(), Random(0))
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not worker.done()
    queue.add("a")
    assert await worker == "a"


async def test_a_delayed_key_comes_on_its_time() -> None:
    queue: WorkQueue[str] = WorkQueue(SystemClock(), Random(0))
    async with asyncio.TaskGroup() as group:
        timer = group.create_task(queue.run())
        queue.add_after("late", 3600)
        queue.add_after("soon", 0.01)
        assert await queue.get() == "soon"
        timer.cancel()


async def test_a_key_given_to_a_cancelled_worker_is_not_lost() -> None:
    queue: WorkQueue[str] = WorkQueue(SystemClock(), Random(0))
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert await queue.get() == "a"


async def test_shutdown_gives_no_more_keys_and_waits_for_those_in_work() -> None:
    queue: WorkQueue[str] = WorkQueue(SystemClock(), Random(0))
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "a"
    idle = asyncio.create_task(queue.get())
    assert await idle == "b"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shut_down()
    assert await waiting is None
    queue.add("c")
    assert await queue.get() is None
    drained = asyncio.create_task(queue.drained())
    queue.done("a")
    await asyncio.sleep(0)
    assert not drained.done()
    queue.done("b")
    await drained
