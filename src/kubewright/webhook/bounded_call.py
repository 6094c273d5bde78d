"""Calling a function that may never return."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from kubewright.api.errors import Timeout
from kubewright.runtime.failure import locate_frame
from kubewright.runtime.thread_pool import ThreadPool

R = TypeVar("R")

_THREADS = 32
"""Calls at once, those included that hang for ever: when all do, every further call is refused."""


class BoundedCalls:
    """Call functions in threads, each for a bounded time.

    A thread cannot be stopped: a function whose time is over is left to itself, and does not keep
    the process from ending.
    """

    def __init__(self) -> None:
        self._pool = ThreadPool("webhook", _THREADS)

    async def call(self, function: Callable[[], R], seconds: float) -> R:
        """Call a function and return what it returns.

        Raises:
            Timeout: it takes too long; the message says where it is.
            Exception: what the function raises.
        """
        thread: list[int] = []

        def run() -> R:
            thread.append(threading.get_ident())
            try:
                return function()
            except Exception:
                raise
            except BaseException as error:
                # An exit from a thread would end the event loop and with it the process.
                raise RuntimeError(f"the function raised {type(error).__name__}") from error

        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._pool.run(run)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the function itself raised it
            raise Timeout(_tell_hanging(thread, seconds), None) from error


def _tell_hanging(thread: list[int], seconds: float) -> str:
    text = f"no answer within {seconds:.1f} s"
    if not thread:
        return f"{text}: {_THREADS} calls before this one have not ended"
    frame = sys._current_frames().get(thread[0])
    place = locate_frame(frame) if frame is not None else ""
    return f"{text}: after that it was at {place}" if place else text
