"""A signal ends the work by cancelling it, and waits for its end."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from kubewright.runtime.signals import run_until_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_work_finish(number: signal.Signals) -> None:
    finished = False

    async def work() -> None:
        nonlocal finished
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(3600)
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)
            finished = True

    await run_until_signal(work())
    assert finished


async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise OSError("the port is taken")

    with pytest.raises(OSError, match="the port is taken"):
        await run_until_signal(work())


async def test_cancellation_goes_to_the_work_and_back() -> None:
    cancelled = False

    async def work() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled = True
            raise

    task = asyncio.create_task(run_until_signal(work()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled
