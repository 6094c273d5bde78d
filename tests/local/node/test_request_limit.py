from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from kubewright.client.transport import NO_HEADERS, Query, Response, Stream
from kubewright.local.node.request_limit import RequestLimit


class HeldTransport:
    """Answers nothing until it is released, and counts what is under way."""

    def __init__(self) -> None:
        self.under_way = 0
        self.released = asyncio.Event()
        self.arrived = asyncio.Event()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        self.under_way += 1
        self.arrived.set()
        await self.released.wait()
        return Response(200)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        self.released.set()


async def test_what_is_beyond_the_limit_waits_and_is_sent_in_turn() -> None:
    inner = HeldTransport()
    limited = RequestLimit(inner, 2)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(limited.request("GET", "/")) for _ in range(5)]
        await inner.arrived.wait()
        await asyncio.sleep(0)
        assert inner.under_way == 2
        inner.released.set()
    assert [task.result().status for task in tasks] == [200] * 5
    assert inner.under_way == 5
