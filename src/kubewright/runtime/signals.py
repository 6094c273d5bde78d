"""Stop on SIGTERM and SIGINT, as a process under a supervisor must."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Turn SIGTERM and SIGINT into an event for as long as the context lasts.

    A second signal acts as it would without us: it ends the process at once.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        stop.set()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


async def run_until_signal(main: Coroutine[object, object, None]) -> None:
    """Run `main` until it ends or a signal comes; then cancel it and wait for its clean-up.

    Raises:
        Exception: whatever `main` raises by itself.
    """
    with stop_signals() as stop:
        work = asyncio.ensure_future(main)
        signalled = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({work, signalled}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            signalled.cancel()
            work.cancel()
            await asyncio.wait({work})
        if not work.cancelled():
            work.result()
