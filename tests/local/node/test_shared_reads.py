from __future__ import annotations

import asyncio
import itertools

import pytest

from kubewright.api.builtin import CONFIG_MAP
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object, Resource
from kubewright.local.node.shared_reads import SharedReads


class HeldClient:
    """Answers each request with its number once it may."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.sent = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def get(self, resource: Resource, name: str, *, namespace: str | None) -> Object:
        number = self.sent = next(self.numbers)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return {"number": number}


def read(reads: SharedReads) -> asyncio.Task[Object]:
    return asyncio.create_task(reads.get(CONFIG_MAP, "c", namespace="ns"))


def build(client: HeldClient) -> SharedReads:
    return SharedReads(client)  # type: ignore[arg-type]  # only `get` is asked for


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_asks_while_a_request_is_on_its_way_shares_the_next_one() -> None:
    client = HeldClient()
    reads = build(client)
    first = read(reads)
    await turns()
    later = [read(reads) for _ in range(10)]
    await turns()
    assert client.sent == 1
    client.gate.set()
    assert (await first)["number"] == 1
    assert [(await task)["number"] for task in later] == [2] * 10
    assert client.sent == 2


async def test_an_answer_is_not_kept() -> None:
    client = HeldClient()
    client.gate.set()
    reads = build(client)
    assert (await read(reads))["number"] == 1
    assert (await read(reads))["number"] == 2


async def test_a_refusal_is_shared() -> None:
    client = HeldClient()
    client.error = NotFound("no such thing")
    reads = build(client)
    first = read(reads)
    await turns()
    later = [read(reads) for _ in range(2)]
    await turns()
    client.gate.set()
    for task in (first, *later):
        with pytest.raises(NotFound):
            await task


async def test_the_others_read_when_the_one_that_was_to_is_cancelled() -> None:
    client = HeldClient()
    reads = build(client)
    first = read(reads)
    await turns()
    leader = read(reads)
    await turns()
    follower = read(reads)
    await turns()
    leader.cancel()
    await turns()
    client.gate.set()
    assert (await first)["number"] == 1
    assert (await follower)["number"] == 2
