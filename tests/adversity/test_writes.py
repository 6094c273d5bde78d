"""Writes are refused when it hurts most: no work is lost, and none happens twice in effect."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import NotFound, TerminalError
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.runtime.children import Children
from kubewright.runtime.context import Context
from kubewright.runtime.operator import Operator
from kubewright.runtime.result import Result
from kubewright.testing import Faults
from tests.adversity.conftest import Pools, Running
from tests.runtime.conftest import config_map_names, eventually
from tests.runtime.pools import Pool, PoolStatus, build_operator

LARGE = 1_400_000
"""Bytes; etcd takes 1.5 MiB in one request."""


def build_measuring() -> Operator:
    """Build an operator whose children tell how long a word is."""
    operator = Operator("measuring")

    @operator.desired(Pool, owns=[builtin.CONFIG_MAP])
    def children(pool: Pool) -> Iterable[Object]:
        for number in range(pool.spec.size):
            name = f"{pool.metadata.name}-{number}"
            yield {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": {"length": str(len(pool.spec.word))},
            }

    @operator.status(Pool)
    def status(pool: Pool, children: Children) -> PoolStatus:
        return PoolStatus(members=[child["metadata"]["name"] for child in children])

    @operator.finalize(Pool)
    async def finalize(pool: Pool, ctx: Context) -> Result | None:
        return None

    return operator


async def is_gone(pools: Pools, name: str = "pool") -> bool:
    try:
        await pools.admin.get(Pool.resource, name, namespace=pools.namespace)
    except NotFound:
        return True
    return False


async def test_an_object_of_1400_kilobytes_is_worked_on_as_any_other(
    pools: Pools, running: Running, faults: Faults
) -> None:
    await pools.create("pool", size=1, word="x" * LARGE)
    async with running(build_measuring()):
        await pools.settle("pool", 1)
        child = await pools.admin.get(builtin.CONFIG_MAP, "pool-0", namespace=pools.namespace)
        assert child["data"] == {"length": str(LARGE)}
        raw = await pools.admin.get_raw(Pool.resource, "pool", namespace=pools.namespace)
        assert len(raw) < LARGE + 10_000, "nothing of it is written into it a second time"
        faults.drop_watches()
        await pools.set("pool", size=2)
        await pools.settle("pool", 2)
        await pools.delete("pool")
        await eventually(lambda: is_gone(pools))


@pytest.mark.parametrize("code", [409, 400, 500])
async def test_a_refusal_after_the_work_is_done_neither_loses_nor_repeats_it(
    pools: Pools, running: Running, faults: Faults, code: int
) -> None:
    await pools.create("pool", size=3)
    rule = faults.fail("write", "pools/status", code=code, times=2)
    async with running(build_operator()):
        await pools.settle("pool", 3)
    assert len(rule.hits) == 2
    applied = [call for call in faults.traffic.writes if call.resource == "configmaps"]
    assert len(applied) == 3


async def test_an_answer_that_is_lost_neither_loses_nor_repeats_work(
    pools: Pools, running: Running, faults: Faults
) -> None:
    await pools.create("pool", size=3)
    rule = faults.cut("write", "configmaps", after_commit=True, times=3)
    async with running(build_operator()):
        await pools.settle("pool", 3)
    assert len(rule.hits) == 3
    found = await pools.admin.list(builtin.CONFIG_MAP, namespace=pools.namespace)
    members = [obj for obj in found if obj["metadata"]["name"].startswith("pool-")]
    assert len(members) == 3
    assert all(len(obj["metadata"]["ownerReferences"]) == 1 for obj in members)


@pytest.mark.parametrize("code", [409, 400, 422])
async def test_what_cannot_be_noted_of_a_failure_does_not_end_its_retries(
    pools: Pools, running: Running, faults: Faults, code: int
) -> None:
    """Where bookkeeping lives in the object, one refused write of it ends all tries (kopf)."""
    operator, calls = build_operator(), 0

    @operator.reconcile(Pool)
    async def day2(pool: Pool, ctx: Context) -> None:
        nonlocal calls
        calls += 1
        if calls < 8:
            raise ConnectionError(f"no database yet, try {calls}")

    status = faults.fail("write", "pools/status", code=code, times=3)
    events = faults.fail("write", "events", code=code, times=None)
    await pools.create("pool", size=1)
    async with running(operator):
        await pools.settle("pool", 1)
    assert calls >= 8
    assert status.hits
    assert events.hits


@pytest.mark.parametrize("code", [409, 503])
async def test_why_an_object_is_stalled_is_told_though_a_write_of_it_failed(
    pools: Pools, admin: Client, running: Running, faults: Faults, code: int
) -> None:
    """What waits for a change has no next time: the lost word would never be said."""
    operator = build_operator()

    @operator.reconcile(Pool)
    async def refuse(pool: Pool, ctx: Context) -> None:
        raise TerminalError("the spec asks for what there is not")

    status = faults.fail("write", "pools/status", code=code, times=2)
    await pools.create("pool", size=1)

    async def is_told() -> bool:
        pool = await admin.get(Pool.resource, "pool", namespace=pools.namespace)
        conditions = (pool.get("status") or {}).get("conditions") or []
        stalled = find_condition(conditions, "Stalled")
        return bool(
            stalled and stalled["status"] == "True" and "there is not" in stalled["message"]
        )

    async with running(operator):
        await eventually(is_told)
    assert len(status.hits) == 2


@pytest.mark.parametrize("code", [409, 422, 500])
async def test_a_refusal_when_the_finalizer_is_removed_keeps_no_object_for_ever(
    pools: Pools, running: Running, faults: Faults, code: int
) -> None:
    await pools.create("pool", size=1)
    async with running(build_measuring()):
        await pools.settle("pool", 1)
        rule = faults.fail("write", "pools", code=code, times=2)
        await pools.delete("pool")
        await eventually(lambda: is_gone(pools), 20)
    assert len(rule.hits) == 2


async def test_what_others_did_meanwhile_is_kept(
    pools: Pools, running: Running, faults: Faults
) -> None:
    """Two operators end one object: each takes out its own finalizer only."""
    await pools.create("pool", size=1)
    async with running(build_measuring()):
        await pools.settle("pool", 1)
        pool = await pools.admin.get(Pool.resource, "pool", namespace=pools.namespace)
        pool["metadata"]["finalizers"].append("example.com/another")
        await pools.admin.replace(pool)
        faults.fail("write", "pools", code=409, times=1)
        await pools.delete("pool")

        async def is_left_to_the_other() -> bool:
            left = await pools.admin.get(Pool.resource, "pool", namespace=pools.namespace)
            return bool(left["metadata"]["finalizers"] == ["example.com/another"])

        await eventually(is_left_to_the_other, 20)
    assert await config_map_names(pools.admin, pools.namespace)
