"""Calling a function that may never return."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kubewright.api.errors import ServiceUnavailable, Timeout
from kubewright.webhook.fault import describe_frame

T = TypeVar("T")

_MOST_ABANDONED = 32
"""Threads that may hang before nothing more is called: each holds memory and may hold locks."""


class BoundedCalls:
    """Call functions in threads, each for a bounded time.

    A thread cannot be stopped. One whose time is over is abandoned: it runs to its own end, and
    does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._abandoned: set[threading.Thread] = set()

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """Call a function and return what it returns.

        Raises:
            Timeout: it takes too long; the message says where it is.
            ServiceUnavailable: too many calls hang already.
            Exception: what the function raises.
        """
        self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
        if len(self._abandoned) >= _MOST_ABANDONED:
            raise ServiceUnavailable(f"{len(self._abandoned)} calls before this one still hang")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        thread = threading.Thread(
            target=_run, args=(function, loop, outcome), name="webhook", daemon=True
        )
        thread.start()
        try:
            async with asyncio.timeout(seconds):
                return await outcome
        except TimeoutError as error:
            if not outcome.cancelled():
                raise  # the function itself raised it
            raise Timeout(_tell_hanging(thread, seconds)) from error
        finally:
            if outcome.cancelled():
                self._abandoned.add(thread)


def _tell_hanging(thread: threading.Thread, seconds: float) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    place = describe_frame(frame) if frame is not None else ""
    where = f": after that it was at {place}" if place else ""
    return f"no answer within {seconds:.1f} s{where}"


def _run(
    function: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[T]
) -> None:
    settle: Callable[[], None]
    try:
        settle = partial(outcome.set_result, function())
    except BaseException as error:
        # Whatever it is, the caller must hear of it, and the loop must go on.
        settle = partial(outcome.set_exception, _as_exception(error))

    def settle_once() -> None:
        if not outcome.done():
            settle()

    try:
        loop.call_soon_threadsafe(settle_once)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


def _as_exception(error: BaseException) -> Exception:
    """Return what a future can carry: not StopIteration, nor what would end the event loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    text = f"the function raised {type(error).__name__}"
    return RuntimeError(text).with_traceback(error.__traceback__)
