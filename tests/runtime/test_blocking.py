"""A plain `def` may block: it gets a thread, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.runtime.blocking import BlockingContext, ReconcileCancelled
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.operator import Operator
from kubewright.runtime.result import Result
from tests.runtime.conftest import Running, eventually
from tests.runtime.pools import Pool, build_pool
from tests.runtime.test_operator import is_true, message_of

pytestmark = pytest.mark.usefixtures("pools_are_served")


def config_map(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


async def exists(client: Client, namespace: str, name: str) -> bool:
    try:
        await client.get(builtin.CONFIG_MAP, name, namespace=namespace)
    except NotFound:
        return False
    return True


async def test_twenty_blocking_functions_run_at_once_and_starve_nobody(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("blocker", workers=20, threads=20)
    loop, all_here, let_go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(all_here.set)

    # It is passed when all twenty are here at the same time, and no sooner.
    together = threading.Barrier(20, tell, timeout=30)

    @operator.reconcile(Pool)
    def reconcile(pool: Pool, ctx: BlockingContext) -> None:
        if not let_go.is_set():
            together.wait()
            assert let_go.wait(30)

    answered: asyncio.Queue[str] = asyncio.Queue()

    async def answer(key: NamespacedName, ctx: Context) -> None:
        if ctx.get(builtin.CONFIG_MAP) is not None and key.name.startswith("tick"):
            answered.put_nowait(key.name)

    for number in range(20):
        await client.create(build_pool(namespace, f"pool-{number}"))
    async with running(operator, Controller("other", builtin.CONFIG_MAP, answer)):
        try:
            async with asyncio.timeout(30):
                await all_here.wait()
                for number in range(5):
                    await client.create(config_map(namespace, f"tick-{number}"))
                    assert await answered.get() == f"tick-{number}"
        finally:
            let_go.set()


async def test_fewer_threads_than_functions_run_all_of_them(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("blocker", workers=20, threads=2)
    at_once, most, done = [0], [0], set[str]()
    lock = threading.Lock()

    @operator.reconcile(Pool)
    def reconcile(pool: Pool, ctx: BlockingContext) -> None:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.01)
        with lock:
            at_once[0] -= 1
        done.add(pool.metadata.name)

    for number in range(20):
        await client.create(build_pool(namespace, f"pool-{number}"))

    async def are_done() -> bool:
        return len(done) == 20

    async with running(operator):
        await eventually(are_done)
    assert most == [2]


async def test_a_blocking_function_reads_and_writes_and_comes_back(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("blocker")
    seen: list[list[str]] = []

    @operator.reconcile(Pool, reads=[builtin.CONFIG_MAP])
    def reconcile(pool: Pool, ctx: BlockingContext) -> Result | None:
        names = [obj["metadata"]["name"] for obj in ctx.list(builtin.CONFIG_MAP)]
        seen.append([name for name in names if name == "made"])
        made = NamespacedName(ctx.request.namespace, "made")
        if ctx.get(builtin.CONFIG_MAP, made) is not None:
            return None
        ctx.create(config_map(made.namespace, made.name))
        ctx.patch(builtin.CONFIG_MAP, made, {"data": {"a": "2"}})
        return Result(after=timedelta(0))

    @operator.finalize(Pool)
    def finalize(pool: Pool, ctx: BlockingContext) -> None:
        ctx.delete(builtin.CONFIG_MAP, NamespacedName(ctx.request.namespace, "made"))

    await client.create(build_pool(namespace))

    async def is_gone() -> bool:
        return not await exists(client, namespace, "made")

    async def came_back() -> bool:
        return len(seen) > 1

    async with running(operator):
        await eventually(came_back)
        made = await client.get(builtin.CONFIG_MAP, "made", namespace=namespace)
        await client.delete(Pool.resource, "pool", namespace=namespace)
        await eventually(is_gone)
    assert made["data"] == {"a": "2"}
    # The second reconcile saw what the first one wrote, as with an async function.
    assert seen[:2] == [[], ["made"]]


async def test_what_a_blocking_function_raises_is_in_the_status(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("blocker")

    @operator.reconcile(Pool)
    def reconcile(pool: Pool, ctx: BlockingContext) -> None:
        raise KeyError("password of the database")

    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Reconciling"))
        assert "password of the database" in await message_of(client, namespace, "Reconciling")


async def test_a_function_that_returns_something_to_await_is_told_how_to_be_written(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("blocker")

    async def work() -> None:
        """Do nothing."""

    def reconcile(pool: Pool, ctx: object) -> object:
        return work()

    operator.reconcile(Pool)(reconcile)  # type: ignore[arg-type] # what is tested
    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Reconciling"))
        assert "make it `async def`" in await message_of(client, namespace, "Reconciling")


async def test_a_cancelled_function_writes_no_more(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("blocker")
    started, stopped, ended = threading.Event(), threading.Event(), threading.Event()
    errors: list[BaseException] = []

    @operator.reconcile(Pool)
    def reconcile(pool: Pool, ctx: BlockingContext) -> None:
        started.set()
        stopped.wait(10)
        try:
            ctx.create(config_map(ctx.request.namespace, "late"))
        except ReconcileCancelled as error:
            errors.append(error)
        ended.set()

    await client.create(build_pool(namespace))
    # The clock is so fast that the grace period at the end is over at once.
    async with running(operator, speed=3000):
        assert await asyncio.to_thread(started.wait, 5)
    stopped.set()
    assert await asyncio.to_thread(ended.wait, 5)
    assert len(errors) == 1
    assert not await exists(client, namespace, "late")


async def test_a_call_that_was_given_up_is_not_doubled_while_it_runs(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("blocker", reconcile_timeout=timedelta(milliseconds=50))
    at_once, most = [0], [0]

    @operator.reconcile(Pool)
    def reconcile(pool: Pool, ctx: BlockingContext) -> None:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        time.sleep(0.5 if most == [1] and not given_up else 0)
        at_once[0] -= 1

    given_up: list[str] = []

    async def is_told() -> bool:
        if not await is_true(client, namespace, "Reconciling"):
            return False
        given_up.append(await message_of(client, namespace, "Reconciling"))
        return "still runs in its thread" in given_up[-1]

    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(is_told)
        await eventually(lambda: is_true(client, namespace, "Ready"))
    assert most == [1]
