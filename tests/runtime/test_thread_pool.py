"""A pool runs blocking functions beside the event loop: so many at once, in turn, reported."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextvars import ContextVar

import pytest

from kubewright.runtime.thread_pool import ThreadPool
from tests.runtime.conftest import FastClock

number: ContextVar[int] = ContextVar("number")


async def test_runs_a_function_in_a_thread_with_the_callers_context() -> None:
    pool = ThreadPool("pool", 2)
    number.set(7)

    def call(add: int) -> tuple[int, str]:
        return number.get() + add, threading.current_thread().name

    assert await pool.run(call, 3) == (10, "pool-1")
    assert await pool.run(call, 4) == (11, "pool-1")


async def test_raises_what_the_function_raises() -> None:
    pool = ThreadPool("pool", 1)

    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(next, iter(()))


async def test_runs_so_many_at_once_and_the_others_in_turn() -> None:
    pool = ThreadPool("pool", 2)
    gate = threading.Event()
    running: list[int] = []

    def call(name: int) -> None:
        running.append(name)
        gate.wait(5)

    tasks = [asyncio.create_task(pool.run(call, name)) for name in range(5)]
    await asyncio.sleep(0.2)
    assert sorted(running) == [0, 1]

    gate.set()
    await asyncio.gather(*tasks)

    assert sorted(running) == [0, 1, 2, 3, 4]


async def test_a_call_that_waits_too_long_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = ThreadPool("pool", 1, clock=FastClock(100))
    gate = threading.Event()
    tasks = [asyncio.create_task(pool.run(gate.wait, 5)) for _ in range(3)]

    with caplog.at_level(logging.WARNING):
        await asyncio.sleep(0.1)
        gate.set()
        await asyncio.gather(*tasks)

    messages = [record.message for record in caplog.records]
    assert len(messages) == 1
    assert messages[0].startswith("pool: all 1 threads for blocking functions are busy, and 2 ")


async def test_whoever_is_cancelled_leaves_its_place_to_the_next() -> None:
    pool = ThreadPool("pool", 1)
    gate = threading.Event()
    working = asyncio.create_task(pool.run(gate.wait, 5))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(pool.run(time.monotonic))
    last = asyncio.create_task(pool.run(time.monotonic))
    await asyncio.sleep(0)

    working.cancel()
    waiting.cancel()
    await asyncio.wait((working, waiting))
    assert not last.done()
    gate.set()

    assert await asyncio.wait_for(last, 5)


def test_a_pool_without_threads_is_refused() -> None:
    with pytest.raises(ValueError, match="use 1 or more"):
        ThreadPool("pool", 0)


def test_a_function_that_outlives_its_loop_harms_nobody() -> None:
    pool = ThreadPool("pool", 1)
    began, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        gate.wait(5)
        ended.set()

    async def leave() -> None:
        task = asyncio.create_task(pool.run(call))
        assert await asyncio.to_thread(began.wait, 5)
        task.cancel()
        await asyncio.wait((task,))

    asyncio.run(leave())
    gate.set()

    assert ended.wait(5)
