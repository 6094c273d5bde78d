"""What is prepared for an object's children is there before them, once, and is left alone."""

from __future__ import annotations

import asyncio

import pytest

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.runtime.context import Context
from kubewright.runtime.operator import Operator
from tests.runtime.conftest import Running, config_map_names, eventually
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.runtime.recording import RecordingTransport

pytestmark = pytest.mark.usefixtures("pools_are_served")


def with_secret(operator: Operator) -> list[int]:
    """Let an operator make a Secret for each pool; return how many children it saw before."""
    seen: list[int] = []

    @operator.prepare(Pool, owns=[builtin.SECRET])
    async def ensure_secret(pool: Pool, ctx: Context) -> None:
        key = NamespacedName(pool.metadata.namespace, pool.metadata.name)
        if ctx.get(builtin.SECRET, key) is not None:
            return
        seen.append(len(ctx.list(builtin.CONFIG_MAP, namespace=key.namespace, labels={})))
        owner = build_owner_reference(pool.to_object())
        metadata = {"name": key.name, "namespace": key.namespace, "ownerReferences": [owner]}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        await ctx.create({**secret, "stringData": {"password": f"secret-{len(seen)}"}})

    return seen


async def find_secret(client: Client, namespace: str) -> Object | None:
    try:
        return await client.get(builtin.SECRET, "pool", namespace=namespace)
    except NotFound:
        return None


async def has_secret(client: Client, namespace: str) -> bool:
    return await find_secret(client, namespace) is not None


async def has_children(client: Client, namespace: str) -> bool:
    return bool(await config_map_names(client, namespace))


async def is_quiet(transport: RecordingTransport) -> bool:
    """Tell whether nothing is written for a while."""
    before = len(transport.writes)
    await asyncio.sleep(0.2)
    return len(transport.writes) == before


async def test_comes_before_the_children_and_is_kept_by_the_engine(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    await client.create(build_pool(namespace, size=2))
    operator = build_operator()
    seen = with_secret(operator)
    async with running(operator):
        await eventually(lambda: has_children(client, namespace))
        await eventually(lambda: is_quiet(transport))
        transport.writes.clear()
        await asyncio.sleep(0.2)
    first = await find_secret(client, namespace)
    async with running(operator):
        await asyncio.sleep(0.2)

    assert seen == [0]
    assert first is not None
    assert await find_secret(client, namespace) == first
    assert transport.writes == []


async def test_is_made_again_when_it_is_deleted(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))
    operator = build_operator()
    with_secret(operator)
    async with running(operator):
        await eventually(lambda: has_secret(client, namespace))
        await client.delete(builtin.SECRET, "pool", namespace=namespace)
        await eventually(lambda: has_secret(client, namespace))


async def test_children_stay_as_they_are_while_it_fails(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_operator()
    failures = 0

    @operator.prepare(Pool)
    async def fail_twice(pool: Pool, ctx: Context) -> None:
        nonlocal failures
        if failures < 2:
            assert await config_map_names(client, namespace) == []
            failures += 1
            raise ConnectionError("not yet")

    await client.create(build_pool(namespace, size=1))
    async with running(operator):
        await eventually(lambda: has_children(client, namespace))

    assert failures == 2
