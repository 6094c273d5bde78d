"""The watchdog: says which code keeps the event loop from turning, while it does."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from kubewright.runtime.attempt import Attempt
from kubewright.runtime.observer import NoControllerObserver, NoObserver

LIMIT = timedelta(milliseconds=100)
_MOST_PLACES = 1000
_CALM_AFTER = 1.0
"""Seconds at rest after which the thread looks less often, every `_CALM_PAUSE` seconds."""
_CALM_PAUSE = 1.0
_PACKAGE = str(Path(__file__).parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})

# The modules whose frames are below the first callback of a turn.
_LOOPS = frozenset(
    {
        *("asyncio.base_events", "asyncio.events", "asyncio.runners", "asyncio.selector_events"),
        *("selectors", "uvloop"),
    }
)

_logger = logging.getLogger(__name__)


class Watchdog(NoObserver, NoControllerObserver):
    """Report code that blocks the event loop for longer than a limit.

        watchdog = Watchdog(metrics.blocked)
        manager = Manager(client, observer=combine_observers([metrics, watchdog]))
        async with watchdog.watching():
            await manager.run()

    Each place is logged once, with its stack, while it blocks. Each block is told to `blocked` with
    its seconds when it is over, on the event loop.

    Any event loop will do. A thread looks at the loop's thread every half `limit`; where it finds
    it at work, it sends the loop a call and waits for it. So a block is found when it lasts `limit`
    at the least, and one and a half of it at the latest. While nothing happens the thread looks
    once in a second only; each reconcile rouses it, so what an operator's functions do is always
    seen. A process that was stopped (SIGSTOP) is not blamed on what it happened to do.

    Attributes:
        is_calm: whether it looks once in a second only.
    """

    def __init__(
        self,
        blocked: Callable[[float], None] | None = None,
        *,
        limit: timedelta = LIMIT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._blocked = blocked
        self._limit = limit.total_seconds()
        self._monotonic = monotonic
        self._loop_thread = 0
        self.is_calm = False
        self._is_over = False
        self._roused = threading.Event()
        self._places: set[object] = set()
        self._collections = (0.0, 0.0)
        """Seconds of all collections that ended, and when the running one began (0: none runs)."""

    def controller(self, name: str, workers: int) -> NoControllerObserver:
        """Hear of each reconcile."""
        return self

    def began(self, attempt: Attempt) -> None:
        """Look closely from now on."""
        if self.is_calm:
            self.is_calm = False
            self._roused.set()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch the running loop for the time of a block."""
        self._loop_thread = threading.get_ident()
        self._is_over = False
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._watch, args=(loop,), name="watchdog", daemon=True)
        gc.callbacks.append(self._note_collection)
        thread.start()
        try:
            yield
        finally:
            gc.callbacks.remove(self._note_collection)
            # It is not waited for: that would block the loop that it watches.
            self._is_over = True
            self._roused.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        looks_at_rest = 0
        while not self._is_over:
            # In this order: who rouses it from now on is not missed.
            self._roused.clear()
            self.is_calm = looks_at_rest * self._limit / 2 >= _CALM_AFTER
            collected = self._sum_collections()
            overslept, used = self._sleep()
            frame = self._find_frame()
            if frame is None or is_at_rest(frame):
                looks_at_rest += 1
                continue
            looks_at_rest = 0
            if self._is_held(overslept, used):
                self._report(frame, collected)
                self._tell_blocked(loop, overslept)
            del frame  # it would keep alive what the loop works on
            if not self._look_closely(loop):
                return

    def _sleep(self) -> tuple[float, float]:
        """Sleep until the next look; return by how much too long, and the CPU seconds used."""
        pause = _CALM_PAUSE if self.is_calm else self._limit / 2
        began, used = self._monotonic(), time.process_time()
        if not self._is_over:
            self._roused.wait(pause)
        return self._monotonic() - began - pause, time.process_time() - used

    def _is_held(self, overslept: float, used: float) -> bool:
        """Tell whether code in C kept Python's lock, so that this thread could not look.

        Where the whole process stood still, it used no CPU time.
        """
        return overslept >= self._limit and used >= overslept / 2

    def _look_closely(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Send the loop a call; report what it is at if that does not come. False: it is closed."""
        sent, answered = self._monotonic(), threading.Event()
        collected = self._sum_collections()
        try:
            loop.call_soon_threadsafe(self._answer, sent, answered)
        except RuntimeError:
            return False
        used = time.process_time()
        in_time = answered.wait(self._limit)
        overslept = self._monotonic() - sent - self._limit
        if (
            not in_time
            and overslept > self._limit
            and not self._is_held(overslept, time.process_time() - used)
        ):
            in_time = answered.wait(self._limit)
        if not in_time and (frame := self._find_frame()) and not answered.is_set():
            self._report(frame, collected)
        while not answered.wait(self._limit) and not self._is_over:
            pass
        return True

    def _tell_blocked(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        if self._blocked is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody counts any more
                loop.call_soon_threadsafe(self._blocked, seconds)

    def _answer(self, sent: float, answered: threading.Event) -> None:
        """Show that the loop turns, on the loop."""
        answered.set()
        seconds = self._monotonic() - sent
        if seconds >= self._limit and self._blocked is not None:
            self._blocked(seconds)

    def _find_frame(self) -> FrameType | None:
        return sys._current_frames().get(self._loop_thread)

    def _report(self, frame: FrameType, collected: float) -> None:
        """Say what held the loop since `collected` was the sum of all collections."""
        if self._sum_collections() - collected >= self._limit / 2:
            self._tell("garbage collection", "Python's garbage collector", "")
            return
        place = find_place(frame)
        code = place.f_code
        where = f"{code.co_qualname} ({code.co_filename}:{place.f_lineno})"
        self._tell((code.co_filename, code.co_firstlineno), where, "".join(format_stack(frame)))

    def _sum_collections(self) -> float:
        """Return the seconds that the garbage collector took up to now."""
        ended, began = self._collections
        return ended + (self._monotonic() - began if began else 0)

    def _tell(self, place: object, where: str, stack: str) -> None:
        # A loop that is not watched any more may have ended: it answers nothing, and blocks nobody.
        if self._is_over or place in self._places or len(self._places) >= _MOST_PLACES:
            return
        self._places.add(place)
        _logger.warning(
            "the event loop has been blocked for %g s by %s; nothing else runs meanwhile. Await "
            "what takes long, or make the function a plain `def`, which runs in a thread%s",
            self._limit,
            where,
            f"\n{stack.rstrip()}" if stack else "",
        )

    def _note_collection(self, phase: str, _: dict[str, int]) -> None:
        # One assignment: the thread that looks sees both values of one moment.
        if phase == "start":
            self._collections = (self._collections[0], self._monotonic())
        else:
            self._collections = (self._sum_collections(), 0.0)


def is_at_rest(frame: FrameType) -> bool:
    """Tell whether the innermost frame of a loop's thread is the loop's own: it waits for events.

    A loop in C, such as uvloop, has no frame; what is seen then is the one that runs it.
    """
    return frame.f_globals.get("__name__") in _LOOPS


def find_place(frame: FrameType) -> FrameType:
    """Return the innermost frame that is the user's own code, else the innermost of all."""
    found: FrameType | None = frame
    while found is not None:
        file = found.f_code.co_filename
        if not file.startswith((*_LIBRARIES, _PACKAGE, "<")):
            return found
        found = found.f_back
        if found is not None and _is_loop(found):
            break
    return frame


def format_stack(frame: FrameType) -> list[str]:
    """Write the stack from what the event loop called down to a frame."""
    frames: list[tuple[FrameType, int]] = []
    found: FrameType | None = frame
    while found is not None and not _is_loop(found):
        frames.append((found, found.f_lineno))
        found = found.f_back
    summary: Any = traceback.StackSummary.extract(reversed(frames))
    lines: list[str] = summary.format()
    return lines


def _is_loop(frame: FrameType) -> bool:
    """Tell whether a frame is the event loop's own, below which nobody is to blame."""
    return frame.f_globals.get("__name__") in _LOOPS
