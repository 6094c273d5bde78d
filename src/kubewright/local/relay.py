"""Two connections made one: what either side says goes to the other, unread."""

from __future__ import annotations

import asyncio
from typing import Protocol


class MessageSocket(Protocol):
    """One end of an upgraded connection: of a WebSocket its messages, of others its bytes."""

    async def receive(self) -> bytes | None:
        """Return what comes next, or None when the other side has closed. Raises OSError."""
        ...

    async def send(self, message: bytes) -> None:
        """Send; waits while the other side is slow. Raises OSError."""
        ...

    async def close(self) -> None:
        """Close; closing again does nothing."""
        ...


async def relay(client: MessageSocket, upstream: MessageSocket) -> None:
    """Pass messages on in both directions until either side closes; then both are closed.

    What one side sent before it closed reaches the other.
    """
    copies = {
        asyncio.create_task(_copy(client, upstream)),
        asyncio.create_task(_copy(upstream, client)),
    }
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in copies:
            task.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        await upstream.close()
        await client.close()


async def _copy(source: MessageSocket, target: MessageSocket) -> None:
    try:
        while (message := await source.receive()) is not None:
            await target.send(message)
    except OSError:
        # The side that is gone ends the other, as if it had closed.
        return
