"""The event loop of a process."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as the whole of a process, on uvloop where it is installed (extra `fast`).

    uvloop takes a third off the processor time of a request; everything works without it.
    """
    # What is loaded by now stays: the collector need not look at it again.
    gc.freeze()
    try:
        from uvloop import run as run_fast
    except ImportError:
        return asyncio.run(main)
    return run_fast(main)


def calm_collector() -> None:
    """Let the cyclic garbage collector look less often: for the start of a process of our own.

    A cache is many thousand small objects that live long and have no cycles. With Python's own
    thresholds a fifth of the processor time of a start goes into looking through them.
    """
    gc.set_threshold(50_000, 20, 20)
