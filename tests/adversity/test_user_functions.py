"""What is wrong with one object or its function stalls that object, and nobody else."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import Conflict, TerminalError
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.client.objects import decode_raw_object
from kubewright.runtime.context import Context
from kubewright.runtime.result import Result
from tests.adversity.conftest import Pools, Running
from tests.runtime.conftest import eventually
from tests.runtime.pools import Pool, build_operator


async def stalled_message(admin: Client, namespace: str, name: str) -> str:
    pool = await admin.get(Pool.resource, name, namespace=namespace)
    stalled = find_condition((pool.get("status") or {}).get("conditions") or [], "Stalled")
    return str(stalled["message"]) if stalled and stalled["status"] == "True" else ""


async def test_a_function_that_is_cancelled_inside_stalls_its_object_alone(
    pools: Pools, admin: Client, running: Running
) -> None:
    """A library that cancels its own task must not end a worker, nor go unnoticed."""
    operator = build_operator()

    @operator.reconcile(Pool)
    async def reconcile(pool: Pool, ctx: Context) -> Result | None:
        if pool.metadata.name == "sick":
            inner = asyncio.ensure_future(asyncio.sleep(3600))
            inner.cancel("the library gave up")
            await inner
        return None

    async def is_stalled() -> bool:
        return "CancelledError" in await stalled_message(admin, pools.namespace, "sick")

    await pools.create("sick", size=1)
    async with running(operator):
        await eventually(is_stalled, seconds=20)
        await pools.create("well", size=2)
        await pools.settle("well", 2)


def with_broken_metadata(obj: Object) -> bytes:
    """Encode a newer state of an object whose labels are no map."""
    version = str(int(obj["metadata"]["resourceVersion"]) + 1)
    metadata = {**obj["metadata"], "labels": ["not", "a", "map"], "resourceVersion": version}
    return msgspec.json.encode({**obj, "metadata": metadata})


async def test_an_object_that_cannot_be_decoded_is_stalled_and_says_why(
    pools: Pools, admin: Client, running: Running
) -> None:
    """No server sends such a thing; a proxy or a newer version of one might."""

    async def is_stalled() -> bool:
        message = await stalled_message(admin, pools.namespace, "odd")
        return "cannot be decoded" in message and "labels" in message

    await pools.create("odd", size=1)
    async with running(build_operator()) as manager:
        await pools.settle("odd", 1)
        odd = await admin.get(Pool.resource, "odd", namespace=pools.namespace)
        broken = decode_raw_object(with_broken_metadata(odd))
        store = manager.cache.store(Pool.resource)
        # What is on its way to the store would put it right again.
        key, version = NamespacedName(pools.namespace, "odd"), odd["metadata"]["resourceVersion"]
        assert await store.wait_for(key, version, timedelta(seconds=10))
        store.put(broken, scope=pools.namespace)
        await eventually(is_stalled)
        await pools.create("well", size=2)
        await pools.settle("well", 2)
        # A readable state ends it.
        await pools.set("odd", size=2)
        await pools.settle("odd", 2)


async def test_a_child_that_cannot_be_decoded_is_not_taken_for_missing(
    pools: Pools, admin: Client, running: Running
) -> None:
    """Whose it is cannot be read: it is neither made again nor deleted."""
    await pools.create("pool", size=1)
    key = NamespacedName(pools.namespace, "pool-0")
    async with running(build_operator()) as manager:
        await pools.settle("pool", 1)
        child = await admin.get(builtin.CONFIG_MAP, key.name, namespace=key.namespace)
        broken = decode_raw_object(with_broken_metadata(child))
        manager.cache.store(builtin.CONFIG_MAP).put(broken, scope=pools.namespace)
        await pools.create("well", size=2)
        await pools.settle("well", 2)
        after = await admin.get(builtin.CONFIG_MAP, key.name, namespace=key.namespace)
        assert after["metadata"]["uid"] == child["metadata"]["uid"]


async def test_what_waits_for_a_change_says_so_after_any_number_of_races(
    pools: Pools, admin: Client, running: Running
) -> None:
    """Of failures in a row not each one is told, but the last one always is."""
    operator = build_operator()
    errors: list[Exception] = [Conflict("race"), Conflict("race"), TerminalError("it cannot be")]

    @operator.reconcile(Pool)
    async def reconcile(pool: Pool, ctx: Context) -> Result | None:
        raise errors.pop(0) if len(errors) > 1 else errors[0]

    async def is_stalled() -> bool:
        return "it cannot be" in await stalled_message(admin, pools.namespace, "pool")

    await pools.create("pool", size=0)
    async with running(operator):
        await eventually(is_stalled)
