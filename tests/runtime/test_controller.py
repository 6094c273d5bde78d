"""A controller brings every object that needs work to its reconcile, however that fails."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import timedelta

import pytest

from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError, Conflict, TerminalError
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch
from tests.runtime.conftest import Running, eventually
from tests.runtime.recording import RecordingTransport


def secret(namespace: str, name: str, **metadata: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, **metadata},
    }


def config_map(namespace: str, name: str, **metadata: object) -> Object:
    return secret(namespace, name, **metadata) | {"kind": "ConfigMap"}


class Calls:
    """Count the reconciles of each name, and fail the first ones when told to."""

    def __init__(self, *errors: BaseException, result: Result | None = None) -> None:
        self.count: Counter[str] = Counter()
        self._errors = list(errors)
        self._result = result

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        self.count[key.name] += 1
        if self._errors:
            raise self._errors.pop(0)
        return self._result

    def reaches(self, name: str, count: int) -> Check:
        return Check(self, name, count)


class Check:
    """Wait until a name was reconciled often enough."""

    def __init__(self, calls: Calls, name: str, count: int) -> None:
        self._calls, self._name, self._count = calls, name, count

    async def __call__(self) -> bool:
        return self._calls.count[self._name] >= self._count


async def test_reconciles_what_is_there_and_what_comes(
    client: Client, namespace: str, running: Running
) -> None:
    calls = Calls()
    await client.create(secret(namespace, "before"))
    async with running(Controller("c", builtin.SECRET, calls.reconcile)):
        await eventually(calls.reaches("before", 1))
        await client.create(secret(namespace, "after"))
        await eventually(calls.reaches("after", 1))
        await client.delete(builtin.SECRET, "after", namespace=namespace)
        await eventually(calls.reaches("after", 2))


async def test_a_child_wakes_its_controller_alone(
    client: Client, namespace: str, running: Running
) -> None:
    calls = Calls()
    owner = await client.create(secret(namespace, "owner"))
    await client.create(secret(namespace, "other"))
    controller = Controller("c", builtin.SECRET, calls.reconcile, owns=[builtin.CONFIG_MAP])
    async with running(controller):
        await eventually(calls.reaches("owner", 1))
        child = config_map(namespace, "child", ownerReferences=[build_owner_reference(owner)])
        await client.create(child)
        await eventually(calls.reaches("owner", 2))
    assert calls.count["other"] == 1


async def test_a_watch_maps_the_object_before_and_after(
    client: Client, namespace: str, running: Running
) -> None:
    calls = Calls()
    for name in ("a", "b"):
        await client.create(secret(namespace, name))
    pointer = await client.create(config_map(namespace, "pointer", labels={"to": "a"}))

    watch = Watch(
        builtin.CONFIG_MAP,
        lambda entry: [NamespacedName(namespace, (entry.meta.labels or {}).get("to", ""))],
        lambda change: change.entry.key.name == "pointer",
    )
    async with running(Controller("c", builtin.SECRET, calls.reconcile, watches=[watch])):
        await eventually(calls.reaches("b", 1))
        await asyncio.sleep(0.05)
        before = Counter(calls.count)
        pointer["metadata"]["labels"]["to"] = "b"
        await client.replace(pointer)
        await eventually(calls.reaches("a", before["a"] + 1))
        await eventually(calls.reaches("b", before["b"] + 1))


async def test_a_failing_map_costs_a_look_at_everything_and_no_event(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()
    await client.create(secret(namespace, "a"))

    def broken(entry: object) -> list[NamespacedName]:
        raise KeyError("labels")

    watch = Watch(builtin.CONFIG_MAP, broken, lambda change: change.entry.key.name == "x")
    async with running(Controller("c", builtin.SECRET, calls.reconcile, watches=[watch])):
        await eventually(calls.reaches("a", 1))
        await client.create(config_map(namespace, "x"))
        await eventually(calls.reaches("a", 2))
    assert "all objects are reconciled" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        RecursionError("a deep bug"),
        SystemExit(3),
        asyncio.CancelledError("nobody cancelled the worker"),
        Conflict("changed meanwhile"),
        ExceptionGroup("several", [ValueError("one"), Conflict("two")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_never_ends_a_worker(
    client: Client, namespace: str, running: Running, error: BaseException
) -> None:
    calls = Calls(error)
    await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, calls.reconcile, workers=1)):
        await eventually(calls.reaches("a", 2))
        await client.create(secret(namespace, "b"))
        await eventually(calls.reaches("b", 1))


async def test_a_result_of_a_wrong_type_is_a_failure_of_its_object_alone(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls(result=5)  # type: ignore[arg-type]  # the fault
    await client.create(secret(namespace, "wrong"))

    async with running(Controller("calls", builtin.SECRET, calls.reconcile)):
        await eventually(calls.reaches("wrong", 2))
        await client.create(secret(namespace, "other"))
        await eventually(calls.reaches("other", 1))

    assert "reconcile returned 5: return a Result or None" in caplog.text


def test_a_wait_that_is_no_timedelta_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match="give a timedelta"):
        Result(after=30)  # type: ignore[arg-type]  # the fault


async def test_a_terminal_error_waits_for_a_change(
    client: Client, namespace: str, running: Running
) -> None:
    calls = Calls(TerminalError("cannot be"))
    created = await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, calls.reconcile), speed=1000):
        await eventually(calls.reaches("a", 1))
        await asyncio.sleep(0.1)
        assert calls.count["a"] == 1
        created["metadata"]["labels"] = {"changed": "yes"}
        await client.replace(created)
        await eventually(calls.reaches("a", 2))


async def test_races_are_silent_and_errors_are_told_with_the_key(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    calls = Calls(Conflict("changed"), ValueError("a bug"), ValueError("a bug"))
    await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, calls.reconcile)):
        await eventually(calls.reaches("a", 4))
    told = [record for record in caplog.records if record.name == "kubewright.controller.c"]
    assert [f"{namespace}/a" in record.getMessage() for record in told] == [True, True]
    assert [record.exc_info is not None for record in told] == [True, False]


async def test_comes_back_after_the_asked_delay(
    client: Client, namespace: str, running: Running
) -> None:
    calls = Calls(result=Result(after=timedelta(hours=1)))
    await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, calls.reconcile), speed=360_000):
        await eventually(calls.reaches("a", 4))


async def test_resync_looks_at_everything(client: Client, namespace: str, running: Running) -> None:
    calls = Calls()
    await client.create(secret(namespace, "a"))
    controller = Controller("c", builtin.SECRET, calls.reconcile, resync=timedelta(hours=1))
    async with running(controller, speed=360_000):
        await eventually(calls.reaches("a", 3))


async def test_tells_once_that_an_object_is_stalled(
    client: Client, namespace: str, running: Running
) -> None:
    calls = Calls(*(ValueError("a bug") for _ in range(15)))
    stalled: list[str] = []

    async def report(key: NamespacedName, ctx: Context, error: BaseException) -> None:
        stalled.append(key.name)
        raise RuntimeError("also the report may fail")

    await client.create(secret(namespace, "a"))
    controller = Controller("c", builtin.SECRET, calls.reconcile, stalled=report)
    async with running(controller, speed=10_000):
        await eventually(calls.reaches("a", 16))
    assert stalled == ["a"]


async def test_never_works_on_one_key_twice_at_a_time(
    client: Client, namespace: str, running: Running
) -> None:
    working: set[NamespacedName] = set()
    overlaps: list[NamespacedName] = []
    count = 0

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        nonlocal count
        if key in working:
            overlaps.append(key)
        working.add(key)
        await asyncio.sleep(0.005)
        working.discard(key)
        count += 1
        return None

    async def is_enough() -> bool:
        return count >= 8

    created = await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, reconcile, workers=8)):
        for number in range(20):
            created["metadata"]["labels"] = {"n": str(number)}
            created = await client.replace(created)
            await asyncio.sleep(0.004)
        await eventually(is_enough)
    assert overlaps == []


async def test_reconciles_that_cause_each_other_are_slowed_down(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    count = 0

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        nonlocal count
        count += 1
        labels = {"metadata": {"labels": {"count": str(count)}}}
        await ctx.patch(builtin.SECRET, key, labels)
        return None

    async def is_noticed() -> bool:
        return "without coming to rest" in caplog.text

    await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, reconcile)):
        await eventually(is_noticed)
        noticed = count
        await asyncio.sleep(0.7)
    assert noticed < count <= noticed + 3


@pytest.mark.parametrize("seconds", [0, -5])
async def test_reconciles_that_ask_to_come_back_at_once_are_slowed_down(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture, seconds: int
) -> None:
    calls = Calls(result=Result(after=timedelta(seconds=seconds)))

    async def is_noticed() -> bool:
        return "asked to be called again at once" in caplog.text

    await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, calls.reconcile)):
        await eventually(is_noticed)
        noticed = calls.count["a"]
        await asyncio.sleep(0.7)
    assert noticed < calls.count["a"] <= noticed + 3


async def test_reads_its_own_writes(client: Client, namespace: str, running: Running) -> None:
    """Count children and create one more than there are, up to five: never too many."""

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        owner = ctx.get(builtin.SECRET)
        if owner is None:
            return None
        children = ctx.list(builtin.CONFIG_MAP, owner=owner["metadata"]["uid"])
        if len(children) < 5:
            child = config_map(key.namespace, "", ownerReferences=[build_owner_reference(owner)])
            del child["metadata"]["name"]
            child["metadata"]["generateName"] = "child-"
            await ctx.create(child)
            # Come back at once: quicker than the watch, unless the write is waited for.
            return Result(after=timedelta(0))
        return None

    await client.create(secret(namespace, "a"))
    controller = Controller("c", builtin.SECRET, reconcile, owns=[builtin.CONFIG_MAP])
    async with running(controller):

        async def has_five() -> bool:
            return len(await children_in(client, namespace)) >= 5

        await eventually(has_five)
        await asyncio.sleep(0.1)
    assert len(await children_in(client, namespace)) == 5


async def children_in(client: Client, namespace: str) -> list[Object]:
    found = await client.list(builtin.CONFIG_MAP, namespace=namespace)
    return [obj for obj in found if obj["metadata"]["name"].startswith("child-")]


async def test_a_create_whose_answer_was_lost_is_not_done_twice(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    lost = False

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        nonlocal lost
        owner = ctx.get(builtin.SECRET)
        if owner is None or ctx.list(builtin.CONFIG_MAP, owner=owner["metadata"]["uid"]):
            return None
        child = config_map(key.namespace, "", ownerReferences=[build_owner_reference(owner)])
        del child["metadata"]["name"]
        child["metadata"]["generateName"] = "child-"
        if not lost:
            lost = True
            transport.lose_next_answer()
        await ctx.create(child)
        return None

    await client.create(secret(namespace, "a"))
    controller = Controller("c", builtin.SECRET, reconcile, owns=[builtin.CONFIG_MAP])
    async with running(controller):

        async def has_one() -> bool:
            return lost and bool(await children_in(client, namespace))

        await eventually(has_one)
        await asyncio.sleep(0.1)
    assert len(await children_in(client, namespace)) == 1


async def test_a_store_that_was_not_asked_for_is_refused_by_name(
    client: Client, namespace: str, running: Running
) -> None:
    refused: list[str] = []

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        try:
            ctx.get(builtin.POD)
        except ConfigurationError as error:
            refused.append(str(error))
        return None

    await client.create(secret(namespace, "a"))
    async with running(Controller("c", builtin.SECRET, reconcile)):

        async def was_refused() -> bool:
            return bool(refused)

        await eventually(was_refused)
    assert "no store of pods" in refused[0]


async def test_stopping_finishes_the_work_in_hand(client: Client, namespace: str) -> None:
    began, ended = asyncio.Event(), False

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        nonlocal ended
        began.set()
        await asyncio.sleep(0.1)
        ended = True
        return None

    await client.create(secret(namespace, "a"))
    manager = Manager(client, namespaces=[namespace])
    manager.add(Controller("c", builtin.SECRET, reconcile))
    task = asyncio.create_task(manager.run())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended


async def test_stopping_does_not_wait_for_ever(client: Client, namespace: str) -> None:
    began, cancelled = asyncio.Event(), False

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        nonlocal cancelled
        began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled = True
            raise
        return None

    await client.create(secret(namespace, "a"))
    grace = timedelta(milliseconds=50)
    manager = Manager(client, namespaces=[namespace], grace_period=grace)
    manager.add(Controller("c", builtin.SECRET, reconcile))
    task = asyncio.create_task(manager.run())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled


async def test_a_failing_runnable_ends_the_manager_with_its_error(client: Client) -> None:
    class Broken:
        async def run(self) -> None:
            raise OSError("the port is taken")

    manager = Manager(client)
    manager.add(Broken())
    with pytest.raises(ExceptionGroup) as caught:
        await manager.run()
    assert caught.group_contains(OSError, match="the port is taken")
