"""An operator that dies, or is cut off, at any point comes to the same end as one that was not."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.runtime.context import Context
from kubewright.runtime.operator import Operator
from kubewright.runtime.result import Result
from tests.runtime.conftest import Running, eventually
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.runtime.recording import FlakyTransport, RecordingTransport
from tests.runtime.test_operator import (
    add_clean_up,
    get_pool,
    has_names,
    is_gone,
    is_true,
    patch_pool,
)

pytestmark = pytest.mark.usefixtures("pools_are_served")


@pytest.mark.parametrize("writes", range(1, 3))
async def test_ends_a_deleted_object_after_dying_at_any_write(
    client: Client,
    namespace: str,
    running: Running,
    transport: RecordingTransport,
    writes: int,
) -> None:
    """The clean-up applies a receipt, then the finalizer goes: both may be done twice."""

    def build() -> Operator:
        operator = build_operator()

        @operator.finalize(Pool)
        async def clean_up(pool: Pool, ctx: Context) -> Result | None:
            receipt = {"name": "receipt", "namespace": namespace}
            await ctx.apply({"apiVersion": "v1", "kind": "Secret", "metadata": receipt})
            return None

        return operator

    await client.create(build_pool(namespace))
    async with running(build()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
    await client.delete(Pool.resource, "pool", namespace=namespace)
    transport.die_after(writes)
    async with running(build()):
        await eventually(lambda: _is_dead(transport))
    transport.revive()
    async with running(build()):
        await eventually(lambda: is_gone(client, namespace))
    await client.get(builtin.SECRET, "receipt", namespace=namespace)


async def state_of(client: Client, namespace: str) -> Object:
    """Return what the operator is answerable for, without what differs each time."""
    maps = await client.list(builtin.CONFIG_MAP, namespace=namespace)
    pool = await get_pool(client, namespace)
    return {
        "maps": {
            obj["metadata"]["name"]: (obj["data"], len(obj["metadata"]["ownerReferences"]))
            for obj in maps
            if obj["metadata"]["name"] != "kube-root-ca.crt"
        },
        "members": pool["status"].get("members"),
        "finalizers": pool["metadata"].get("finalizers"),
        "conditions": {c["type"]: c["status"] for c in pool["status"]["conditions"]},
    }


def build_finalizing_operator() -> Operator:
    operator = build_operator()
    add_clean_up(operator, [])
    return operator


AT_REST = {
    "maps": {"pool-0": ({"word": "b"}, 1), "pool-1": ({"word": "b"}, 1)},
    "members": ["pool-0", "pool-1"],
    "finalizers": ["pools.example.com/pool-operator"],
    "conditions": {"Ready": "True", "Reconciling": "False", "Stalled": "False"},
}


# The finalizer, two children, the status.
@pytest.mark.parametrize("writes", range(1, 5))
async def test_comes_to_the_same_end_after_dying_at_any_write_of_a_start(
    client: Client,
    namespace: str,
    running: Running,
    transport: RecordingTransport,
    writes: int,
) -> None:
    await client.create(build_pool(namespace, size=2, word="b"))
    transport.die_after(writes)
    async with running(build_finalizing_operator()):
        await eventually(lambda: _is_dead(transport))
    transport.revive()
    async with running(build_finalizing_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
    assert await state_of(client, namespace) == AT_REST


# Two children, a deletion, the status.
@pytest.mark.parametrize("writes", range(1, 5))
async def test_comes_to_the_same_end_after_dying_at_any_write_of_a_change(
    client: Client,
    namespace: str,
    running: Running,
    transport: RecordingTransport,
    writes: int,
) -> None:
    await client.create(build_pool(namespace, size=3, word="a"))
    async with running(build_finalizing_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
    await patch_pool(client, namespace, size=2, word="b")
    transport.die_after(writes)
    async with running(build_finalizing_operator()):
        await eventually(lambda: _is_dead(transport))
    transport.revive()
    async with running(build_finalizing_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        await eventually(lambda: has_names(client, namespace, 2))
    assert await state_of(client, namespace) == AT_REST


@pytest.mark.parametrize("seed", range(5))
async def test_comes_to_the_same_end_through_random_faults(
    client: Client,
    namespace: str,
    running: Running,
    transport: RecordingTransport,
    seed: int,
) -> None:
    random = Random(seed)
    connection = FlakyTransport(transport, random, 0.3)
    await client.create(build_pool(namespace, size=1, word="a"))
    async with running(build_finalizing_operator(), through=connection, speed=50) as manager:

        async def has_caught_up() -> bool:
            return all(reflector.failure is None for reflector in manager.cache.reflectors)

        for _ in range(10):
            size = random.randrange(4)
            await patch_pool(client, namespace, size=size, word=random.choice("abc"))
            await asyncio.sleep(random.uniform(0, 0.05))
            connection.set_open(is_open=random.random() < 0.7)
        await patch_pool(client, namespace, size=2, word="b")
        connection.chance = 0
        connection.set_open(is_open=True)
        await eventually(has_caught_up)
        await eventually(lambda: is_at_rest(client, namespace))
        await asyncio.sleep(0.2)
        transport.writes.clear()
        await asyncio.sleep(0.1)
        assert transport.writes == []


async def is_at_rest(client: Client, namespace: str) -> bool:
    pool = await get_pool(client, namespace)
    return bool(pool.get("status")) and await state_of(client, namespace) == AT_REST


async def _is_dead(transport: RecordingTransport) -> bool:
    return transport.is_dead
