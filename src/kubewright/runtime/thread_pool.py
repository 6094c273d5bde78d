"""Threads for blocking functions: a bounded number, of their own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from kubewright.client.clock import Clock, SystemClock
from kubewright.runtime.alarm import Alarm

R = TypeVar("R")

THREADS = 16
"""How many there are unless somebody says otherwise: blocking functions mostly wait."""
PATIENCE = 1.0
"""Seconds that a call waits for a thread before that is reported."""
_QUIET = 60.0
"""Seconds until it is reported again."""

_logger = logging.getLogger(__name__)


class ThreadPool:
    """Run blocking functions while the event loop goes on.

    At most `size` of them run at once; the others wait in the order in which they came, and
    whoever waits for more than a second is reported. Threads start when they are needed. They are
    daemons: a function that never returns does not keep the process from ending.

    Use a pool from one event loop. Context variables, so also the reconcileID of logs, are those
    of the caller.
    """

    def __init__(self, name: str, size: int, *, clock: Clock | None = None) -> None:
        if size < 1:
            raise ValueError(f"{name}: a thread pool of {size} threads runs nothing: use 1 or more")
        self.name = name
        self.size = size
        self._clock: Clock = SystemClock() if clock is None else clock
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._waiting: deque[Alarm] = deque()
        self._quiet_until = float("-inf")

    async def run(self, function: Callable[..., R], *arguments: Any) -> R:
        """Call a function in a thread and return what it returns; what it raises is raised.

        Cancelled, it gives up waiting at once. A function that has begun cannot be stopped: its
        thread is busy until it returns.
        """
        await self._acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[R] = loop.create_future()
        context = contextvars.copy_context()
        self._calls.put(_Call(lambda: context.run(function, *arguments), loop, done, self._finish))
        return await done

    async def _acquire(self) -> None:
        if self._busy < self.size and not self._waiting:
            self._busy += 1
            if self._threads < self._busy:
                self._threads += 1
                name = f"{self.name}-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            return
        turn = Alarm(self._clock)
        self._waiting.append(turn)
        try:
            if not await turn.wait(PATIENCE):
                self._report()
                await turn.wait()
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._release()
            raise

    def _release(self) -> None:
        """Give a thread that is free to whoever waits longest."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._busy -= 1

    def _report(self) -> None:
        now = self._clock.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + _QUIET
        _logger.warning(
            "%s: all %d threads for blocking functions are busy, and %d calls wait for one: "
            "give the operator more (threads=), or make the functions async",
            self.name,
            self.size,
            len(self._waiting),
        )

    def _finish(self, done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        """Take what a thread brings, on the event loop."""
        self._release()
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def _work(self) -> None:
        while True:
            run_call(self._calls.get())


class _Call(NamedTuple):
    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    finish: Callable[[asyncio.Future[Any], Any, BaseException | None], None]


def run_call(call: _Call) -> None:
    """Run a call in the current thread and bring its outcome to the event loop."""
    result: Any = None
    error: BaseException | None = None
    try:
        if not call.done.cancelled():
            result = call.function()
    except StopIteration as stop:
        # A future refuses it, for it would end whichever generator awaits the future.
        error = RuntimeError(f"a blocking function raised StopIteration({stop.value!r})")
    except BaseException as raised:
        error = raised
    if not call.loop.is_closed():
        try:
            call.loop.call_soon_threadsafe(call.finish, call.done, result, error)
        except RuntimeError:
            # It closed this very moment: nobody is left who waits.
            _logger.debug("a blocking function ended after its event loop")
