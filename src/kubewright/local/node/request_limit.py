"""How many requests a node has under way at once: it must not drown what keeps it alive."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, Transport

REQUESTS_AT_ONCE = 16
"""For all pods together; watches do not count."""


class RequestLimit:
    """A transport that lets a number of requests through at once; the others wait their turn.

    A hundred pods that start together send some thousand requests. Waiting here they cost nothing.
    At a slow server the node's lease would wait behind them, and the node be taken for dead.
    """

    def __init__(self, inner: Transport, limit: int = REQUESTS_AT_ONCE) -> None:
        self._inner = inner
        self._gate = asyncio.Semaphore(limit)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        """Send a request once fewer than the limit are under way."""
        async with self._gate:
            return await self._inner.request(method, path, query=query, headers=headers, body=body)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a stream at once."""
        return self._inner.stream(method, path, query=query, headers=headers, body=body)

    async def close(self) -> None:
        """Close the transport."""
        await self._inner.close()
