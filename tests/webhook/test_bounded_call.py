"""A function that never returns is cut, and told with the place where it hangs."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from kubewright.api.errors import Timeout
from kubewright.webhook.bounded_call import BoundedCalls


async def test_returns_what_the_function_returns_from_another_thread() -> None:
    assert await BoundedCalls().call(threading.get_ident, 5) != threading.get_ident()


async def test_raises_what_the_function_raises() -> None:
    def fail() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await BoundedCalls().call(fail, 5)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(1), KeyboardInterrupt()])
async def test_what_would_end_the_loop_is_an_error_like_any_other(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError, match=f"function raised {type(error).__name__}"):
        await BoundedCalls().call(fail, 5)


async def test_a_hanging_function_is_cut_and_its_place_told() -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait(10)

    started = time.monotonic()
    with pytest.raises(Timeout, match=r"it was at webhook/test_bounded_call.py:\d+ in hang"):
        await BoundedCalls().call(hang, 0.1)
    assert time.monotonic() - started < 2
    release.set()


async def test_when_too_many_hang_further_calls_are_refused_until_one_ends() -> None:
    calls, release = BoundedCalls(), threading.Event()

    def hang() -> None:
        release.wait(10)

    outcomes = await asyncio.gather(
        *(calls.call(hang, 0.2) for _ in range(32)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {Timeout}
    with pytest.raises(Timeout, match="32 calls before this one have not ended"):
        await calls.call(hang, 0.1)

    release.set()
    assert await calls.call(lambda: 1, 5) == 1
