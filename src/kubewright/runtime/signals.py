"""Stop on SIGTERM and SIGINT, the way Kubernetes and terminals ask for it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def run_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends or a signal asks to stop; a second signal does not hurry it.

    On SIGTERM or SIGINT the work is cancelled and awaited: a manager finishes what is in hand
    within its grace period. What the work raises is raised.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    signals = (signal.SIGTERM, signal.SIGINT)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()

    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        # Cancelled by somebody else: that must go on to them.
        if not stopped:
            raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
