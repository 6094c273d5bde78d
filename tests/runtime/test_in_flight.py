"""Many objects at once keep few requests under way, and no object waits for ever (probe 12)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from kubewright.client.client import Client
from kubewright.client.transport import NO_HEADERS, Query, Response
from tests.runtime.conftest import Running, eventually
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.runtime.recording import RecordingTransport


class CountingTransport(RecordingTransport):
    """Note how many requests were under way at once."""

    under_way = 0
    most = 0

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
            # A server is not as fast as one in memory: what can pile up does.
            await asyncio.sleep(0.001)
            return await super().request(method, path, query=query, headers=headers, body=body)
        finally:
            self.under_way -= 1


async def are_ready(client: Client, namespace: str, count: int) -> bool:
    pools = await client.list(Pool.resource, namespace=namespace)
    ready = [pool for pool in pools if (pool.get("status") or {}).get("members")]
    return len(ready) == count


@pytest.mark.parametrize("workers", [2, 64])
async def test_requests_under_way_are_bounded_by_workers_and_by_the_client(
    client: Client,
    namespace: str,
    running: Running,
    transport: RecordingTransport,
    workers: int,
) -> None:
    operator = build_operator(workers=workers)
    await operator.ensure_crds(client)
    for number in range(100):
        await client.create(build_pool(namespace, f"pool-{number}"))
    counting = CountingTransport(transport)
    async with running(operator, through=counting):
        await eventually(lambda: are_ready(client, namespace, 100), seconds=30)
    # Besides the workers, Events are written one at a time.
    assert counting.most <= min(workers + 1, 32)
    assert counting.most >= 2
