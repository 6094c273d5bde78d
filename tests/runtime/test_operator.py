"""An operator makes what should exist exist, and keeps it so, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.attempt import Outcome
from kubewright.runtime.child_kind import ChildKind
from kubewright.runtime.children import Children
from kubewright.runtime.context import Context
from kubewright.runtime.operator import Operator
from kubewright.runtime.result import Result
from tests.runtime.attempts import Attempts
from tests.runtime.conftest import Running, config_map_names, eventually
from tests.runtime.pools import Pool, PoolStatus, build_operator, build_pool
from tests.runtime.recording import GappyTransport, RecordingTransport

pytestmark = pytest.mark.usefixtures("pools_are_served")


async def get_pool(client: Client, namespace: str, name: str = "pool") -> Object:
    return await client.get(Pool.resource, name, namespace=namespace)


async def patch_pool(client: Client, namespace: str, **spec: Any) -> None:
    patch = {"spec": spec}
    await client.patch(Pool.resource, "pool", patch, type=PatchType.MERGE, namespace=namespace)


async def is_true(client: Client, namespace: str, type: str) -> bool:
    pool = await get_pool(client, namespace)
    status = pool.get("status") or {}
    condition = find_condition(status.get("conditions") or [], type)
    observed = status.get("observedGeneration") == pool["metadata"]["generation"]
    return observed and condition is not None and condition["status"] == "True"


async def message_of(client: Client, namespace: str, type: str) -> str:
    pool = await get_pool(client, namespace)
    condition = find_condition(pool["status"]["conditions"], type)
    assert condition is not None
    return str(condition["message"])


async def test_makes_what_is_desired_and_says_so(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace, size=2))
    async with running(build_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
    pool = await get_pool(client, namespace)
    assert pool["status"]["members"] == ["pool-0", "pool-1"]
    assert await config_map_names(client, namespace) == ["pool-0", "pool-1"]
    child = await client.get(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
    assert child["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"]


async def test_follows_the_spec_and_prunes(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace, size=3, web=True))
    async with running(build_operator()):
        await eventually(lambda: has_names(client, namespace, 3))
        await patch_pool(client, namespace, size=1, web=False, word="b")
        await eventually(lambda: is_true(client, namespace, "Ready"))
        await eventually(lambda: has_names(client, namespace, 1))
    child = await client.get(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
    assert child["data"] == {"word": "b"}
    with pytest.raises(NotFound):
        await client.get(builtin.SERVICE, "pool", namespace=namespace)


async def has_names(client: Client, namespace: str, count: int) -> bool:
    return await config_map_names(client, namespace) == [f"pool-{n}" for n in range(count)]


async def test_a_second_reconcile_and_a_new_process_send_no_write(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    await client.create(build_pool(namespace, size=2, web=True))
    async with running(build_operator()):
        await eventually(lambda: is_true(client, namespace, "Reconciling"))
        await client.get(builtin.DEPLOYMENT, "pool", namespace=namespace)
        transport.writes.clear()
        # A change that concerns nothing wakes the pool.
        annotate = {"metadata": {"annotations": {"seen": "yes"}}}
        await client.patch(
            Pool.resource, "pool", annotate, type=PatchType.MERGE, namespace=namespace
        )
        await asyncio.sleep(0.3)
    async with running(build_operator()):
        await asyncio.sleep(0.3)
    assert [str(write) for write in transport.writes] == [
        f"PATCH /apis/pools.example.com/v1/namespaces/{namespace}/pools/pool 200"
    ]


async def test_repairs_what_others_change_and_delete(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace, size=2))
    async with running(build_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        await client.delete(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
        await client.patch(
            builtin.CONFIG_MAP,
            "pool-1",
            {"data": {"word": "spoiled", "more": "kept"}},
            type=PatchType.MERGE,
            namespace=namespace,
        )
        await eventually(lambda: has_names(client, namespace, 2))

        async def is_repaired() -> bool:
            child = await client.get(builtin.CONFIG_MAP, "pool-1", namespace=namespace)
            return bool(child["data"] == {"word": "a", "more": "kept"})

        await eventually(is_repaired)


async def test_recovers_what_happened_while_it_was_away(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace, size=3))
    async with running(build_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
    await client.delete(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
    await patch_pool(client, namespace, size=2)
    async with running(build_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        await eventually(lambda: has_names(client, namespace, 2))


async def test_recovers_what_happened_while_it_was_cut_off(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    connection = GappyTransport(transport)
    await client.create(build_pool(namespace, size=3))
    async with running(build_operator(), through=connection, speed=20):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        for word in ("b", "c"):
            connection.set_open(is_open=False)
            await client.delete(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
            await patch_pool(client, namespace, size=2, word=word)
            await asyncio.sleep(0.05)
            connection.set_open(is_open=True)
            await eventually(lambda: is_true(client, namespace, "Ready"))
            await eventually(lambda: has_names(client, namespace, 2))
            assert await _has_word(client, namespace, word)


async def test_an_invalid_child_stalls_with_the_cause_and_is_not_tried_again(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    operator = build_operator("invalid-operator")
    operator.kinds[0].desired = lambda pool: [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": pool.metadata.name},
            "spec": {"ports": [{"port": 99999 if pool.spec.size > 1 else 80}]},
        }
    ]
    await client.create(build_pool(namespace, size=2))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Stalled"))
        message = await message_of(client, namespace, "Ready")
        assert "spec.ports[0].port" in message
        assert "must be between 1 and 65535" in message
        transport.writes.clear()
        await asyncio.sleep(0.3)
        assert transport.writes == []
        await patch_pool(client, namespace, size=1)
        await eventually(lambda: is_true(client, namespace, "Ready"))


async def test_an_error_in_desired_stalls_until_the_spec_changes(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_operator()
    broken = operator.kinds[0].desired
    assert broken is not None

    def desired(pool: Pool) -> Any:
        if pool.spec.word == "bad":
            raise KeyError("no such word")
        return broken(pool)

    operator.kinds[0].desired = desired
    await client.create(build_pool(namespace, word="bad"))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Stalled"))
        message = await message_of(client, namespace, "Stalled")
        assert message.startswith("KeyError: 'no such word' (runtime/test_operator.py:")
        await patch_pool(client, namespace, word="good")
        await eventually(lambda: is_true(client, namespace, "Ready"))


async def test_a_refused_object_says_why(client: Client, namespace: str, running: Running) -> None:
    operator = build_operator()

    @operator.validate(Pool)
    def odd(new: Pool, old: Pool | None) -> None:
        if new.spec.size % 2 == 0:
            raise ValueError("spec.size: must be odd")

    await client.create(build_pool(namespace, size=2))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Stalled"))
        assert await message_of(client, namespace, "Stalled") == "spec.size: must be odd"
        assert await config_map_names(client, namespace) == []
        await eventually(lambda: has_event(client, namespace, "Invalid"))
        await patch_pool(client, namespace, size=1)
        await eventually(lambda: is_true(client, namespace, "Ready"))


async def test_defaults_are_filled_in_where_no_webhook_does_and_stay_out_of_the_spec(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_operator()

    @operator.default(Pool)
    def word(pool: Pool) -> None:
        if pool.spec.word == "a":
            pool.spec.word = "filled in"

    await client.create(build_pool(namespace, size=1))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        child = await client.get(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
        assert child["data"] == {"word": "filled in"}
    pool = await get_pool(client, namespace)
    assert (pool["spec"]["word"], pool["metadata"]["generation"]) == ("a", 1)


async def has_event(client: Client, namespace: str, reason: str) -> bool:
    """Look for an Event the way `kubectl describe` does."""
    fields = {"involvedObject.name": "pool", "involvedObject.kind": "Pool"}
    events = await client.list(builtin.CORE_EVENT, namespace=namespace, fields=fields)
    return any(event["reason"] == reason for event in events)


async def test_a_failing_reconcile_is_tried_again_until_it_works(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_operator()
    calls = 0

    @operator.reconcile(Pool)
    async def day2(pool: Pool, ctx: Context) -> Result | None:
        nonlocal calls
        calls += 1
        if calls <= 5:
            raise ConnectionError(f"no database, attempt {calls}")
        return None

    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Ready"))
    assert calls >= 6


async def test_ten_failures_stall_an_object_that_is_still_tried(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_operator()
    works = False

    @operator.reconcile(Pool)
    async def day2(pool: Pool, ctx: Context) -> Result | None:
        if not works:
            raise ConnectionError("no database")
        return None

    await client.create(build_pool(namespace))
    async with running(operator, speed=50):
        await eventually(lambda: is_true(client, namespace, "Stalled"))
        message = await message_of(client, namespace, "Stalled")
        assert message.startswith("ConnectionError: no database (runtime/test_operator.py:")
        works = True
        await eventually(lambda: is_true(client, namespace, "Ready"))


async def test_a_finalizer_keeps_the_object_until_the_clean_up_is_done(
    client: Client, namespace: str, running: Running
) -> None:
    operator, cleaned = build_operator(), asyncio.Event()
    looked = 0

    @operator.finalize(Pool)
    async def clean_up(pool: Pool, ctx: Context) -> Result | None:
        nonlocal looked
        looked += 1
        if not cleaned.is_set():
            raise ConnectionError("the backup is not reachable")
        return None

    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        await client.delete(Pool.resource, "pool", namespace=namespace)
        await asyncio.sleep(0.1)
        assert looked > 1
        pool = await get_pool(client, namespace)
        assert pool["metadata"]["deletionTimestamp"]
        cleaned.set()
        await eventually(lambda: is_gone(client, namespace))


async def is_gone(client: Client, namespace: str) -> bool:
    try:
        await get_pool(client, namespace)
    except NotFound:
        return True
    return False


def add_clean_up(operator: Operator, order: list[str]) -> None:
    @operator.finalize(Pool)
    async def clean_up(pool: Pool, ctx: Context) -> Result | None:
        order.append(operator.name)
        return None


async def test_two_operators_keep_each_others_finalizers(
    client: Client, namespace: str, running: Running
) -> None:
    first, second = build_operator("first"), build_operator("second")
    order: list[str] = []
    for operator in (first, second):
        # Two operators may share a kind, but not the children of its objects.
        operator.kinds[0].desired = None
        add_clean_up(operator, order)
    await client.create(build_pool(namespace))
    async with running(first, second):

        async def both_hold() -> bool:
            pool = await get_pool(client, namespace)
            return sorted(pool["metadata"].get("finalizers") or []) == [
                "pools.example.com/first",
                "pools.example.com/second",
            ]

        await eventually(both_hold)
        await client.delete(Pool.resource, "pool", namespace=namespace)
        await eventually(lambda: is_gone(client, namespace))
    assert {"first", "second"} <= set(order)


async def test_never_touches_the_child_of_another(
    client: Client, namespace: str, running: Running
) -> None:
    stranger = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "pool-0", "namespace": namespace},
        "data": {"mine": "yes"},
    }
    await client.create(stranger)
    await client.create(build_pool(namespace))
    async with running(build_operator()):
        await eventually(lambda: is_true(client, namespace, "Stalled"))
        assert "neither was it made by this operator" in await message_of(
            client, namespace, "Stalled"
        )
        child = await client.get(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
        assert child["data"] == {"mine": "yes"}
        await client.delete(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
        await eventually(lambda: is_true(client, namespace, "Ready"))


async def test_recreates_what_may_not_change_only_when_told_to(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_operator()
    managed = operator.kinds[0]
    managed.own([ChildKind(builtin.CONFIG_MAP, on_immutable="recreate")])
    whole = managed.desired
    assert whole is not None

    def immutable(pool: Pool) -> Iterable[Object]:
        for child in whole(pool):
            assert isinstance(child, dict)
            yield {**child, "immutable": True}

    managed.desired = immutable
    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        await patch_pool(client, namespace, word="b")
        await eventually(lambda: is_true(client, namespace, "Ready"))
        child = await client.get(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
        assert child["data"] == {"word": "b"}


async def test_repairs_again_and_again_and_then_rests(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    await client.create(build_pool(namespace))
    async with running(build_operator()):
        await eventually(lambda: is_true(client, namespace, "Ready"))
        for number in range(5):
            await client.patch(
                builtin.CONFIG_MAP,
                "pool-0",
                {"data": {"word": f"w{number}"}},
                type=PatchType.MERGE,
                namespace=namespace,
            )
        await eventually(lambda: _has_word(client, namespace, "a"))
        await asyncio.sleep(0.2)
        transport.writes.clear()
        await asyncio.sleep(0.2)
        assert transport.writes == []


async def _has_word(client: Client, namespace: str, word: str) -> bool:
    child = await client.get(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
    return bool(child["data"]["word"] == word)


async def test_says_nothing_in_a_namespace_that_goes_away(
    client: Client, namespace: str, running: Running
) -> None:
    """What is refused there needs no repair, no Event and no status: the object goes too."""
    attempts = Attempts()
    async with running(build_operator(), speed=20, observer=attempts):
        await client.create(build_pool(namespace, size=1))
        await eventually(lambda: is_true(client, namespace, "Ready"))
        await client.delete(builtin.NAMESPACE, namespace)
        await client.delete(builtin.CONFIG_MAP, "pool-0", namespace=namespace)
        await eventually(lambda: was_refused(attempts))
        await asyncio.sleep(0.3)  # six seconds of back-off, in which a retry would be seen

    refused = [attempt for attempt in attempts.all if attempt.failure]
    # Another reconcile may have been under way at the deletion, and heard of it only at its end.
    assert len(refused) <= 2
    assert {attempt.outcome for attempt in refused} == {Outcome.SUCCESS}
    assert {attempt.retry_after for attempt in refused} == {None}
    assert not is_stalled(await get_pool(client, namespace))


async def was_refused(attempts: Attempts) -> bool:
    return any(attempt.failure for attempt in attempts.all)


def is_stalled(pool: Object) -> bool:
    condition = find_condition(pool["status"]["conditions"], "Stalled")
    return condition is not None and condition["status"] == "True"


async def test_a_status_function_finds_objects_that_belong_to_the_whole_cluster(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_operator()

    def find_classes(pool: Pool, children: Children) -> PoolStatus:
        found = children.find(builtin.STORAGE_CLASS, {})
        return PoolStatus(members=[each["metadata"]["name"] for each in found])

    managed = next(iter(operator.kinds))
    managed.status = find_classes
    managed.reads.append(builtin.STORAGE_CLASS)
    name = f"fast-{namespace}"
    await client.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "example.com/disk",
        }
    )
    await client.create(build_pool(namespace))

    async def is_found() -> bool:
        pool = await get_pool(client, namespace)
        return name in (pool.get("status") or {}).get("members", [])

    async with running(operator):
        await eventually(is_found)
    await client.delete(builtin.STORAGE_CLASS, name)
