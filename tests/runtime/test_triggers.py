"""What wakes an object, what does not, and how urgently."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.errors import TerminalError
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.runtime.observer import NoControllerObserver, NoObserver
from kubewright.runtime.operator import Operator
from kubewright.runtime.queue import Priority
from kubewright.runtime.result import Result
from kubewright.runtime.watch import generation_changed
from tests.runtime.conftest import FastClock, Running, eventually
from tests.runtime.pools import Pool, build_pool

pytestmark = pytest.mark.usefixtures("pools_are_served")


class Reconciles:
    """Note which names are reconciled, and raise what was given for each."""

    def __init__(self, *errors: Exception, result: Result | None = None) -> None:
        self.names: list[str] = []
        self.errors = list(errors)
        self.result = result

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        self.names.append(key.name)
        if self.errors:
            raise self.errors.pop(0)
        return self.result

    async def reach(self, count: int) -> None:
        async def is_reached() -> bool:
            return len(self.names) >= count

        await eventually(is_reached)

    async def stay(self, count: int) -> None:
        """Show that nothing more comes: long enough for any event that is under way."""
        await self.reach(count)
        await asyncio.sleep(0.1)
        assert len(self.names) == count


async def patch(client: Client, namespace: str, body: Any, *, subresource: str = "") -> None:
    await client.patch(
        Pool.resource,
        "pool",
        body,
        type=PatchType.MERGE,
        namespace=namespace,
        subresource=subresource or None,
    )


async def test_a_terminal_failure_waits_for_another_intent(
    client: Client, namespace: str, running: Running
) -> None:
    pool = await client.create(build_pool(namespace))
    calls = Reconciles(*(TerminalError("cannot be") for _ in range(4)))
    controller = Controller("c", Pool.resource, calls.reconcile, owns=[builtin.CONFIG_MAP])
    async with running(controller):
        await calls.stay(1)
        await patch(client, namespace, {"status": {"members": ["x"]}}, subresource="status")
        await calls.stay(1)
        await patch(client, namespace, {"metadata": {"annotations": {"try": "again"}}})
        await calls.stay(2)
        await patch(client, namespace, {"spec": {"size": 2}})
        await calls.stay(3)
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}}
        child["metadata"] |= {  # type: ignore[operator]  # a dict
            "namespace": namespace,
            "ownerReferences": [build_owner_reference(pool)],
        }
        await client.create(child)
        await calls.stay(4)
        await client.delete(builtin.CONFIG_MAP, "child", namespace=namespace)
        await calls.stay(5)
        # It succeeded: a status wakes it again.
        await patch(client, namespace, {"status": {"members": ["y"]}}, subresource="status")
        await calls.stay(6)


async def test_a_terminal_failure_is_tried_again_by_a_new_process(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))
    calls = Reconciles(TerminalError("cannot be"))
    async with running(Controller("c", Pool.resource, calls.reconcile)):
        await calls.stay(1)
    async with running(Controller("c", Pool.resource, calls.reconcile)):
        await calls.stay(2)


async def test_a_filter_keeps_out_status_and_lets_deletions_in(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))
    calls = Reconciles()
    controller = Controller("c", Pool.resource, calls.reconcile, changes=generation_changed)
    async with running(controller):
        await calls.stay(1)
        await patch(client, namespace, {"status": {"members": ["x"]}}, subresource="status")
        await patch(client, namespace, {"metadata": {"labels": {"a": "b"}}})
        await calls.stay(1)
        await patch(client, namespace, {"spec": {"size": 2}})
        await calls.stay(2)
        await client.delete(Pool.resource, "pool", namespace=namespace)
        await calls.stay(3)


async def test_a_broken_filter_keeps_nothing_out(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(change: object) -> bool:
        raise asyncio.CancelledError("raised by a plain function: nobody was cancelled")

    calls = Reconciles()
    controller = Controller("c", Pool.resource, calls.reconcile, changes=broken)
    async with running(controller):
        await client.create(build_pool(namespace))
        await calls.stay(1)
        await patch(client, namespace, {"spec": {"size": 2}})
        await calls.stay(2)
    assert "filtering a change" in caplog.text


async def test_a_source_and_a_filter_of_an_operator(
    client: Client, namespace: str, running: Running
) -> None:
    calls = Reconciles()
    told: asyncio.Queue[str] = asyncio.Queue()
    operator = Operator("sourced")
    operator.filter_changes(Pool, generation_changed)

    @operator.reconcile(Pool)
    async def reconcile(pool: Pool, ctx: Context) -> Result | None:
        return await calls.reconcile(ctx.request, ctx)

    @operator.source(Pool)
    async def messages() -> AsyncIterator[NamespacedName]:
        while True:
            yield NamespacedName(namespace, await told.get())

    await client.create(build_pool(namespace))
    async with running(operator):
        await calls.stay(1)
        told.put_nowait("pool")
        await calls.stay(2)


async def test_deletions_come_before_changes_and_start_up(
    client: Client, namespace: str, running: Running
) -> None:
    for number in range(5):
        await client.create(build_pool(namespace, f"pool-{number}"))
    doomed = build_pool(namespace, "pool-9")
    doomed["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(doomed)
    await client.delete(Pool.resource, "pool-9", namespace=namespace)
    calls = Reconciles()
    async with running(Controller("c", Pool.resource, calls.reconcile, workers=1)):
        await calls.reach(6)
    assert calls.names[0] == "pool-9"
    no_finalizers: Any = {"metadata": {"finalizers": None}}
    await client.patch(
        Pool.resource, "pool-9", no_finalizers, type=PatchType.MERGE, namespace=namespace
    )


async def test_a_result_says_how_urgent_its_wait_is(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))
    calls = Reconciles(result=Result(after=timedelta(seconds=1), priority=Priority.LOW))
    controller = Controller("c", Pool.resource, calls.reconcile, workers=1)
    async with running(controller):
        await calls.reach(1)
        delayed = controller.queue.delayed
        assert list(delayed.values()) == [Priority.LOW]


class StalledCounts(NoObserver, NoControllerObserver):
    """Note how many objects are told to be stalled."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def controller(self, name: str, workers: int) -> StalledCounts:
        return self

    def stalled(self, count: int) -> None:
        self.counts.append(count)


async def failing_for(
    client: Client, namespace: str, caplog: pytest.LogCaptureFixture, error: Exception
) -> tuple[list[float], list[int]]:
    """Run a controller through 12 errors; return its back-off after each, and stalled counts."""
    calls = Reconciles(*[error] * 12)
    observer = StalledCounts()
    clock = FastClock(20_000)
    manager = Manager(client, namespaces=[namespace], clock=clock, observer=observer)
    manager.add(Controller("c", Pool.resource, calls.reconcile))
    await client.create(build_pool(namespace))
    task = asyncio.create_task(manager.run())
    await calls.reach(13)
    task.cancel()
    await asyncio.wait((task,))
    told = [record for record in caplog.records if "times in a row" in record.msg]
    return [float(re.findall(r"in (\d+\.\d+) s", r.getMessage())[0]) for r in told], observer.counts


async def test_ten_failures_end_in_the_longest_interval(
    client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    waits, counts = await failing_for(client, namespace, caplog, ValueError("a bug"))
    assert max(waits[:9]) < 2
    assert min(waits[9:]) >= 900
    assert (len(waits), counts) == (12, [1, 0])


async def test_what_heals_by_itself_is_tried_again_sooner(
    client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    waits, counts = await failing_for(client, namespace, caplog, ConnectionError("away"))
    assert max(waits) < 12
    assert (len(waits), counts) == (12, [1, 0])
