"""The work queue: no key is lost, and none is given to two workers."""

from __future__ import annotations

import asyncio
from operator import itemgetter
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubewright.client.clock import SystemClock
from kubewright.runtime.queue import KeyQueue, Priority, WorkQueue
from kubewright.runtime.retry_budget import RETRY_BURST, RETRY_RATE, RetryBudget

KEYS = st.sampled_from("abcd")
DELAYS = st.floats(min_value=0, max_value=20)


class QueueMachine(RuleBasedStateMachine):
    """Drive a queue at random; `wanted` is what must still be worked on."""

    def __init__(self) -> None:
        super().__init__()
        # Few tokens: what must wait for one is not lost either.
        budget = RetryBudget(rate=0.5, burst=2)
        self.queue: KeyQueue[str] = KeyQueue(Random(0), group="ab".count, budget=budget)
        self.now = 0.0
        self.wanted: set[str] = set()
        self.working: set[str] = set()

    @rule(key=KEYS, priority=st.sampled_from(Priority))
    def add(self, key: str, priority: Priority) -> None:
        self.queue.add(key, self.now, priority)
        self.wanted.add(key)

    @rule(key=KEYS, delay=DELAYS, priority=st.sampled_from(Priority))
    def add_after(self, key: str, delay: float, priority: Priority) -> None:
        self.queue.add_after(key, delay, self.now, priority)
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
        while self.queue.waiting:
            left = self.queue.take(end)
            if left is None:
                due = self.queue.next_due()
                assert due is not None, "what waits is never due"
                end = max(end, due)
                continue
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


def test_deletions_come_first() -> None:
    queue = build_queue()
    queue.add("resync", 0.0, Priority.LOW)
    queue.add("change", 0.0, Priority.HIGH)
    queue.add("deletion", 1.0, Priority.URGENT)
    assert take_all(queue, 1.0) == ["deletion", "change", "resync"]


def test_aged_keys_get_every_fifth_turn_and_no_more() -> None:
    """Start-up with many keys must not keep a user waiting, however long it takes already."""
    queue = build_queue(ageing=5.0)
    for number in range(100):
        queue.add(f"old {number}", 0.0, Priority.LOW)
    assert queue.take(0.0) == "old 0"
    for number in range(100):
        queue.add(f"new {number}", 6.0, Priority.HIGH)
    taken = [key for _ in range(50) if (key := queue.take(6.0))]
    assert [key.split()[0] for key in taken[:6]] == ["new", "new", "new", "new", "old", "new"]
    assert sum(key.startswith("old") for key in taken) == 10


def test_a_storm_of_deletions_does_not_starve_changes() -> None:
    queue = build_queue(ageing=5.0)
    queue.add("change", 0.0, Priority.HIGH)
    taken: list[str | None] = []
    for number in range(20):
        queue.add(f"deletion {number}", float(number), Priority.URGENT)
        taken.append(queue.take(float(number)))
    assert "change" in taken[:7]


def test_namespaces_take_turns() -> None:
    queue: KeyQueue[tuple[str, int]] = KeyQueue(Random(0), group=itemgetter(0))
    for number in range(10_000):
        queue.add(("big", number), 0.0)
    for number in range(3):
        queue.add(("small", number), 1.0)
        queue.add(("other", number), 1.0)
    taken = [queue.take(1.0) for _ in range(9)]
    assert taken == [
        (namespace, number) for number in range(3) for namespace in ("big", "small", "other")
    ]
    assert queue.take(1.0) == ("big", 3)


def test_keys_of_cancelled_turns_do_not_cost_a_turn() -> None:
    queue: KeyQueue[tuple[str, int]] = KeyQueue(Random(0), group=itemgetter(0))
    for number in range(5):
        queue.add(("a", number), 0.0, Priority.LOW)
    queue.add(("b", 0), 0.0, Priority.LOW)
    for number in range(5):
        queue.add(("a", number), 0.0, Priority.HIGH)
    assert [queue.take(0.0) for _ in range(6)] == [*(("a", n) for n in range(5)), ("b", 0)]
    assert queue.take(0.0) is None


def test_many_failing_keys_are_retried_no_faster_than_the_budget() -> None:
    queue: KeyQueue[int] = KeyQueue(Random(0))
    for number in range(5_000):
        queue.retry(number, 0.0)
    at_once = 0
    while queue.take(1.0) is not None:
        at_once += 1
    assert at_once == RETRY_BURST
    due = queue.next_due()
    assert due is not None
    assert 1.0 < due <= 1.0 + 1 / RETRY_RATE
    assert queue.take(due) is not None
    assert queue.take(due) is None


def test_a_success_lets_the_next_retry_through() -> None:
    queue: KeyQueue[int] = KeyQueue(Random(0), budget=RetryBudget(burst=1))
    for number in range(100):
        queue.retry(number, 0.0)
    recovered = 0
    while (key := queue.take(1.0)) is not None:
        queue.forget(key)
        queue.done(key, 1.0)
        recovered += 1
    assert recovered == 100


def test_the_budget_does_not_slow_changes_and_timers() -> None:
    queue: KeyQueue[int] = KeyQueue(Random(0), budget=RetryBudget(burst=1))
    for number in range(100):
        queue.retry(number, 0.0)
    assert queue.take(1.0) is not None
    assert queue.take(1.0) is None
    queue.add(50, 1.0)
    queue.add_after(200, 0.0, 1.0)
    assert {queue.take(1.0), queue.take(1.0)} == {50, 200}


def test_a_retry_keeps_the_priority_of_its_work() -> None:
    queue = build_queue()
    queue.add("resync", 0.0, Priority.LOW)
    assert queue.take(0.0) == "resync"
    queue.retry("resync", 0.0)
    queue.done("resync", 0.0)
    queue.promote(1.0)
    queue.add("change", 1.0, Priority.HIGH)
    assert take_all(queue, 1.0) == ["change", "resync"]


def test_a_storm_of_events_for_a_key_in_work_is_one_more_reconcile() -> None:
    queue = build_queue()
    queue.add("a", 0.0)
    assert queue.take(0.0) == "a"
    for _ in range(10_000):
        queue.add("a", 0.0)
    assert queue.waiting == {"a"}
    queue.done("a", 0.0)
    assert take_all(queue, 0.0) == ["a"]
    queue.done("a", 0.0)
    assert queue.waiting == frozenset()


def test_a_forgotten_key_leaves_nothing_behind() -> None:
    queue = build_queue()
    queue.add("a", 0.0)
    assert queue.take(0.0) == "a"
    queue.retry("a", 0.0)
    queue.hold("a", 1.0, 0.0)
    queue.done("a", 0.0)
    assert queue.take(2.0) == "a"
    queue.forget("a")
    queue.done("a", 2.0)
    assert queue.waiting == queue.active == frozenset()
    left = {name: value for name, value in vars(queue).items() if name in _BOOKS}
    assert not any(left.values()), left


_BOOKS = {"_ready", "_due", "_heap", "_gate", "_active", "_again", "_failures", "_held"}


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


async def test_workers_that_never_wait_let_others_run() -> None:
    queue: WorkQueue[int] = WorkQueue(SystemClock(), Random(0))
    for number in range(100):
        queue.add(number)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    for _ in range(100):
        key = await queue.get()
        assert key is not None
        queue.done(key)
    counting.cancel()
    assert turns >= 10


async def test_a_key_taken_in_a_row_by_a_cancelled_worker_is_not_lost() -> None:
    queue: WorkQueue[int] = WorkQueue(SystemClock(), Random(0))
    for number in range(20):
        queue.add(number)
    taken: list[int] = []

    async def work() -> None:
        while (key := await queue.get()) is not None:
            taken.append(key)
            queue.done(key)

    worker = asyncio.create_task(work())
    await asyncio.sleep(0)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert 0 < len(taken) < 20
    while len(queue):
        key = await queue.get()
        assert key is not None
        taken.append(key)
        queue.done(key)
    assert sorted(taken) == list(range(20))


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
