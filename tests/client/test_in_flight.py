"""A client has a set number of requests under way, however many are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from kubewright.api import builtin
from kubewright.client.client import MAX_IN_FLIGHT, Client
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream
from tests.client.scripted_transport import FakeClock, answer, failure, pod


class CountingTransport:
    """Answer when told to; note how many requests were under way at once."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.under_way = 0
        self.most = 0
        self.refuses = refuses
        self.goes_on = asyncio.Event()

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
        self.most = max(self.most, self.under_way)
        try:
            await self.goes_on.wait()
        finally:
            self.under_way -= 1
        if self.refuses:
            return failure(429, "TooManyRequests", retry_after="1")
        return answer(pod("a", 1))

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("no test here watches")

    async def close(self) -> None:
        """Have nothing to close."""


async def test_a_thousand_requests_go_a_few_at_a_time() -> None:
    transport = CountingTransport()
    client = Client(transport)
    async with asyncio.TaskGroup() as group:
        reads = [
            group.create_task(client.get(builtin.POD, "a", namespace="n")) for _ in range(1000)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert transport.under_way == MAX_IN_FLIGHT
        transport.goes_on.set()
    assert len(reads) == 1000
    assert transport.most == MAX_IN_FLIGHT


class HeldClock(FakeClock):
    """A clock that passes no time until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.goes_on.wait()


async def test_who_was_told_to_come_back_later_holds_no_place() -> None:
    transport, clock = CountingTransport(refuses=True), HeldClock()
    transport.goes_on.set()
    client = Client(transport, clock=clock, max_in_flight=1)
    first = asyncio.create_task(client.get(builtin.POD, "a", namespace="n"))
    await asyncio.sleep(0)
    transport.refuses = False
    assert await client.get(builtin.POD, "b", namespace="n") == pod("a", 1)
    assert not first.done()
    clock.goes_on.set()
    assert await first == pod("a", 1)


async def test_a_cancelled_request_gives_its_place_back() -> None:
    transport = CountingTransport()
    client = Client(transport, max_in_flight=1)
    task = asyncio.create_task(client.get(builtin.POD, "a", namespace="n"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    transport.goes_on.set()
    assert await client.get(builtin.POD, "a", namespace="n") == pod("a", 1)
