from __future__ import annotations

import asyncio

from kubewright.local.apiserver.reader_signal import ReaderSignal


async def test_wakes_the_reader() -> None:
    signal = ReaderSignal()
    asyncio.get_running_loop().call_soon(signal.set)
    assert await signal.wait(60)
    signal.cancel()


async def test_tells_that_nothing_came() -> None:
    signal = ReaderSignal()
    assert not await signal.wait(0)


async def test_a_signal_before_the_wait_is_not_kept() -> None:
    signal = ReaderSignal()
    signal.set()
    assert not await signal.wait(0)


async def test_each_wait_has_its_own_limit() -> None:
    loop = asyncio.get_running_loop()
    signal = ReaderSignal()
    loop.call_soon(signal.set)
    assert await signal.wait(60)
    # A shorter limit than that of the timer that runs still holds, and a longer one as well.
    assert not await signal.wait(0.01)
    loop.call_soon(signal.set)
    assert await signal.wait(0.01)
    loop.call_later(0.05, signal.set)
    assert await signal.wait(60)
    signal.cancel()


async def test_a_reader_that_is_cancelled_leaves_the_signal_usable() -> None:
    signal = ReaderSignal()
    reader = asyncio.create_task(signal.wait(60))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    asyncio.get_running_loop().call_soon(signal.set)
    assert await signal.wait(60)
    signal.cancel()
