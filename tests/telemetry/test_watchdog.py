"""A blocked event loop is reported once per place, with the stack, and counted."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from random import Random

import pytest

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.runtime.attempt import Attempt
from kubewright.telemetry.metrics import Metrics
from kubewright.telemetry.watchdog import Watchdog
from tests.runtime.conftest import eventually

# Long enough to tell from the noise of a busy machine.
LIMIT = timedelta(milliseconds=200)


class Watched:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.blocks: list[float] = []
        self.watchdog = Watchdog(self.blocks.append, limit=LIMIT)
        self._caplog = caplog

    @property
    def reports(self) -> list[str]:
        records = self._caplog.records
        return [r.getMessage() for r in records if r.name == "kubewright.telemetry.watchdog"]

    @property
    def sleeps(self) -> list[str]:
        """The reports of what these tests do: on a busy machine, others may come."""
        return [report for report in self.reports if " by sleep_in_user_code (" in report]


@pytest.fixture
async def watched(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Watched]:
    watched = Watched(caplog)
    with caplog.at_level(logging.WARNING):
        async with watched.watchdog.watching():
            await asyncio.sleep(0)
            yield watched


@asynccontextmanager
async def a_turn_later() -> AsyncIterator[None]:
    yield
    # The block ends, and the loop can say so.
    await asyncio.sleep(0.05)


def sleep_in_user_code(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_sleep_is_reported_with_its_stack_and_counted(watched: Watched) -> None:
    async with a_turn_later():
        sleep_in_user_code(0.6)

    (report,) = watched.sleeps
    assert report.startswith("the event loop has been blocked for 0.2 s by sleep_in_user_code (")
    assert "test_watchdog.py" in report
    assert "time.sleep(seconds)" in report
    assert "test_a_sleep_is_reported_with_its_stack_and_counted" in report
    # The event loop's own frames are nobody's fault.
    assert "base_events.py" not in report
    assert max(watched.blocks) > 0.3


async def test_a_place_is_reported_once_and_counted_each_time(watched: Watched) -> None:
    for _ in range(2):
        async with a_turn_later():
            sleep_in_user_code(0.5)

    assert len(watched.sleeps) == 1
    assert len(watched.blocks) >= 2


async def test_code_in_c_that_keeps_pythons_lock_is_found_when_it_lets_go(
    watched: Watched,
) -> None:
    async with a_turn_later():
        while not watched.blocks and watched.reports == []:
            # One match runs for over half a second, and no other thread may run meanwhile.
            re.match(r"(a+)+$", "a" * 24 + "b")
            await asyncio.sleep(0.01)

    assert any("test_code_in_c_that_keeps_pythons_lock" in report for report in watched.reports)


async def test_says_nothing_once_its_time_is_over(caplog: pytest.LogCaptureFixture) -> None:
    async with Watchdog(limit=timedelta(milliseconds=50)).watching():
        await asyncio.sleep(0)
    sleep_in_user_code(0.5)

    assert "blocked" not in caplog.text


async def test_many_short_turns_are_no_block(caplog: pytest.LogCaptureFixture) -> None:
    blocks: list[float] = []
    end = time.monotonic() + 2.5
    async with Watchdog(blocks.append, limit=timedelta(seconds=1)).watching():
        while time.monotonic() < end:
            sleep_in_user_code(0.005)
            await asyncio.sleep(0)

    assert "blocked" not in caplog.text
    assert blocks == []


async def test_a_calm_watchdog_is_roused_by_a_reconcile(watched: Watched) -> None:
    async def is_calm() -> bool:
        return watched.watchdog.is_calm

    await eventually(is_calm)
    attempt = Attempt("c", builtin.SECRET, NamespacedName("", "a"), started=0.0, ids=Random(0))

    watched.watchdog.controller("c", 1).began(attempt)
    async with a_turn_later():
        sleep_in_user_code(0.6)

    assert len(watched.sleeps) == 1


@contextmanager
def collections_taking(seconds: float) -> Iterator[None]:
    def finalize(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            time.sleep(seconds)

    gc.callbacks.append(finalize)
    try:
        yield
    finally:
        gc.callbacks.remove(finalize)


# One long collection, and many that are short but come one after the other.
@pytest.mark.parametrize(("collections", "seconds"), [(1, 0.6), (60, 0.01)])
async def test_the_garbage_collector_is_called_by_its_name(
    watched: Watched, collections: int, seconds: float
) -> None:
    async with a_turn_later():
        with collections_taking(seconds):
            for _ in range(collections):
                gc.collect(0)

    assert any("by Python's garbage collector" in report for report in watched.reports)


async def test_blocks_are_a_metric() -> None:
    metrics = Metrics()

    metrics.blocked(0.3)

    read = metrics.registry.get_sample_value
    assert read("kubewright_event_loop_blocked_seconds_count") == 1
    assert read("kubewright_event_loop_blocked_seconds_sum") == 0.3
