"""Run a manager for the time of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubewright.runtime.manager import Manager


@asynccontextmanager
async def run_manager(manager: Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(10):
            await manager.wait_ready()
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
