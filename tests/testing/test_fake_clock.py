"""Time passes when the test says so."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from kubewright.client.clock import Clock
from kubewright.testing import FakeClock


async def test_sleepers_wake_at_their_own_time_and_in_order(fake_clock: FakeClock) -> None:
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await fake_clock.sleep(seconds)
        woken.append((name, fake_clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleep("late", 20))
        group.create_task(sleep("early", 5))
        await fake_clock.wait_sleepers(2)
        assert fake_clock.sleepers == [5, 20]

        await fake_clock.advance(10)
        assert woken == [("early", 5)]
        assert fake_clock.sleepers == [10]
        await fake_clock.advance(10)

    assert woken == [("early", 5), ("late", 20)]


async def test_who_sleeps_again_is_woken_again(fake_clock: FakeClock) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await fake_clock.sleep(10)
            ticks.append(fake_clock.monotonic())

    task = asyncio.create_task(tick())
    await fake_clock.advance(60)
    task.cancel()
    await asyncio.wait((task,))

    assert ticks == [10, 20, 30, 40, 50, 60]
    assert fake_clock.sleepers == []


async def test_a_jump_moves_the_wall_time_alone(fake_clock: FakeClock) -> None:
    before = fake_clock.now()

    fake_clock.jump(3600)
    await fake_clock.advance(1)
    fake_clock.jump(-7200)

    assert fake_clock.now() - before == timedelta(seconds=-3599)
    assert fake_clock.monotonic() == 1


async def test_time_does_not_go_back(fake_clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="jump"):
        await fake_clock.advance(-1)


def test_it_is_a_clock(fake_clock: FakeClock) -> None:
    clock: Clock = fake_clock

    assert clock.now().tzinfo is not None
