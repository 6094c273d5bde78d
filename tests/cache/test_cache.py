from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

import pytest

from kubewright.api import builtin
from kubewright.cache import Cache
from kubewright.client import Client
from tests.cache.faulty_server import FaultyServer
from tests.client.scripted_transport import FakeClock, ScriptedTransport, listing, pod


def cache_of(server: FaultyServer | ScriptedTransport, *namespaces: str) -> Cache:
    clock = FakeClock()
    client = Client(server, clock=clock)
    return Cache(client, clock=clock, random=Random(1), namespaces=namespaces, watch_list=False)


@asynccontextmanager
async def running(cache: Cache) -> AsyncGenerator[None]:
    task = asyncio.create_task(cache.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_one_selection_has_one_store() -> None:
    cache = cache_of(FaultyServer())
    one = cache.store(builtin.POD, labels={"b": "2", "a": "1"})
    assert cache.store(builtin.POD, labels="a=1,b=2") is one
    assert cache.store(builtin.POD) is not one
    assert cache.store(builtin.POD, namespace="ns") is not cache.store(builtin.POD)
    assert len(cache.reflectors) == 3


async def test_waits_until_all_stores_are_synced() -> None:
    server = FaultyServer()
    server.put("a")
    cache = cache_of(server)
    pods = cache.store(builtin.POD)
    async with running(cache):
        await cache.wait_synced()
        assert [entry.key.name for entry in pods.list()] == ["a"]


async def test_a_store_registered_while_running_starts_at_once() -> None:
    cache = cache_of(FaultyServer())
    async with running(cache):
        await asyncio.sleep(0)
        late = cache.store(builtin.CONFIG_MAP)
        await asyncio.wait_for(late.wait_synced(), 5)


async def test_runs_on_without_a_store() -> None:
    cache = cache_of(FaultyServer())
    async with running(cache):
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="runs already"):
            await cache.run()


async def test_goes_on_where_it_was_when_run_again() -> None:
    server = FaultyServer()
    cache = cache_of(server)
    pods = cache.store(builtin.POD)
    async with running(cache):
        await cache.wait_synced()
    server.put("a")
    server.delete("a")
    server.put("b")
    async with running(cache):
        for _ in range(50):
            await asyncio.sleep(0)
        assert [entry.key.name for entry in pods.list()] == ["b"]


async def test_reads_only_its_namespaces_into_one_store() -> None:
    other = {"metadata": {"name": "b", "namespace": "other", "resourceVersion": "5"}}
    transport = ScriptedTransport.of(listing(7, pod("a", 3)), listing(9, other))
    cache = cache_of(transport, "ns", "other")
    pods = cache.store(builtin.POD)
    async with running(cache):
        await asyncio.wait_for(cache.wait_synced(), 5)
        assert sorted(str(entry.key) for entry in pods.list()) == ["ns/a", "other/b"]
    assert {call.path for call in transport.calls} == {
        "/api/v1/namespaces/ns/pods",
        "/api/v1/namespaces/other/pods",
    }


def test_cluster_wide_resources_and_named_namespaces_are_not_split() -> None:
    cache = cache_of(FaultyServer(), "ns", "other")
    cache.store(builtin.NODE)
    cache.store(builtin.POD, namespace="third")
    assert [reflector.namespace for reflector in cache.reflectors] == ["", "third"]
