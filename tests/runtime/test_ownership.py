"""Whose child it is: never taken from another, kept when asked, made anew only as itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, cast

import pytest

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import ConfigurationError, Conflict, NotFound
from kubewright.api.metadata import build_owner_reference, controller_of
from kubewright.api.resource import Object
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.requests import PatchType
from kubewright.runtime.applied_memory import AppliedMemory
from kubewright.runtime.child_kind import OWNER, ChildKind, build_children, child_key
from kubewright.runtime.context import Context
from kubewright.runtime.desired import apply_plan, plan_children
from kubewright.runtime.operator import Operator
from tests.runtime.conftest import Running, eventually
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.runtime.recording import RecordingTransport

pytestmark = pytest.mark.usefixtures("pools_are_served")


def build_map(name: str, namespace: str = "", **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def build_sharing(kind: ChildKind, **extra: Any) -> Operator:
    """Build an operator of which every pool wants the same ConfigMap."""
    operator = Operator("sharing")

    @operator.desired(Pool, owns=[kind])
    def children(pool: Pool) -> Iterable[Object]:
        yield {**build_map("shared", word=pool.spec.word), **extra}

    return operator


async def stalled(client: Client, namespace: str, name: str) -> str:
    pool = await client.get(Pool.resource, name, namespace=namespace)
    conditions = (pool.get("status") or {}).get("conditions") or []
    condition = find_condition(conditions, "Stalled")
    return str(condition["message"]) if condition and condition["status"] == "True" else ""


async def is_ready(client: Client, namespace: str, name: str = "pool") -> bool:
    pool = await client.get(Pool.resource, name, namespace=namespace)
    status = pool.get("status") or {}
    condition = find_condition(status.get("conditions") or [], "Ready")
    return (
        status.get("observedGeneration") == pool["metadata"]["generation"]
        and condition is not None
        and condition["status"] == "True"
    )


@pytest.mark.parametrize("adopt", [False, True])
async def test_of_two_owners_that_want_a_name_one_has_it_for_good(
    client: Client, namespace: str, running: Running, adopt: bool
) -> None:
    """Both apply as one field manager: an unguarded apply would take the other's reference out."""
    if adopt:
        await client.create(build_map("shared", namespace))
    for name in ("one", "two", "three"):
        await client.create(build_pool(namespace, name, word=name))
    async with running(build_sharing(ChildKind(builtin.CONFIG_MAP, adopt=adopt))):

        async def is_settled() -> bool:
            states = [await stalled(client, namespace, name) for name in ("one", "two", "three")]
            return sum("it belongs to Pool" in state for state in states) == 2

        await eventually(is_settled)
        shared = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
        holder = controller_of(shared)
        assert holder is not None
        assert shared["data"] == {"word": holder["name"]}
        assert len(shared["metadata"]["ownerReferences"]) == 1
        # The others get it when its owner is gone.
        await client.delete(Pool.resource, holder["name"], namespace=namespace)

        async def has_another() -> bool:
            try:
                found = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
            except NotFound:
                return False
            reference = controller_of(found)
            assert reference is not None
            if reference["name"] != holder["name"]:
                return True
            # The garbage collector's work. It may have to be done twice: the operator hears of
            # owners and children by two watches, and may repair a child of an owner that is gone.
            with contextlib.suppress(NotFound):
                uid = found["metadata"]["uid"]
                await client.delete(builtin.CONFIG_MAP, "shared", namespace=namespace, uid=uid)
            return False

        await eventually(has_another)


async def test_an_object_that_waits_for_the_child_of_its_namesake_is_not_ready(
    client: Client, namespace: str, running: Running
) -> None:
    """The child that has the name goes with its owner, and is none of the new one's."""
    former = await client.create(build_pool(namespace, word="former"))
    child = build_map("shared", namespace, word="former")
    child["metadata"]["ownerReferences"] = [build_owner_reference(former)]
    left = await client.create(child)
    await client.delete(Pool.resource, "pool", namespace=namespace)
    again = await client.create(build_pool(namespace, word="again"))
    assert again["metadata"]["uid"] != former["metadata"]["uid"]
    async with running(build_sharing(ChildKind(builtin.CONFIG_MAP))):

        async def has_status() -> bool:
            pool = await client.get(Pool.resource, "pool", namespace=namespace)
            return bool((pool.get("status") or {}).get("conditions"))

        await eventually(has_status)
        assert not await is_ready(client, namespace)
        # The garbage collector's work, which may have been done already.
        with contextlib.suppress(NotFound):
            await client.delete(
                builtin.CONFIG_MAP, "shared", namespace=namespace, uid=left["metadata"]["uid"]
            )
        await eventually(lambda: is_ready(client, namespace))
    shared = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
    assert shared["data"] == {"word": "again"}


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep stores from showing ConfigMaps, as if the watch were far behind."""
    get = Store.get

    def get_nothing(self: Store, key: Any) -> Entry | None:
        return None if self.resource == builtin.CONFIG_MAP else get(self, key)

    monkeypatch.setattr(Store, "get", get_nothing)


async def test_a_stale_store_does_not_take_a_strangers_object(
    client: Client,
    namespace: str,
    running: Running,
    transport: RecordingTransport,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await client.create(build_map("shared", namespace, mine="yes"))
    await client.create(build_pool(namespace))
    with monkeypatch.context() as patched:
        blind(patched)
        async with running(build_sharing(ChildKind(builtin.CONFIG_MAP))):

            async def has_tried() -> bool:
                return any("/configmaps/shared 409" in str(write) for write in transport.writes)

            await eventually(has_tried)
    shared = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
    assert shared["data"] == {"mine": "yes"}
    assert "ownerReferences" not in shared["metadata"]


async def test_a_child_that_was_released_meanwhile_is_not_deleted(
    client: Client, namespace: str, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the read and the deletion, another takes the child over."""
    await client.create(build_pool(namespace, size=2))
    async with running(build_operator()):
        await eventually(lambda: is_ready(client, namespace))
        delete, taken = Client.delete, False
        other = await client.create(build_map("other", namespace))

        async def take_first(self: Client, kind: Any, name: str, **options: Any) -> None:
            nonlocal taken
            if name == "pool-1" and not taken:
                taken = True
                references = [build_owner_reference(other)]
                patch = {"metadata": {"ownerReferences": references}}
                await client.patch(
                    builtin.CONFIG_MAP, name, patch, type=PatchType.MERGE, namespace=namespace
                )
            await delete(self, kind, name, **options)

        monkeypatch.setattr(Client, "delete", take_first)
        patch = {"spec": {"size": 1}}
        await client.patch(Pool.resource, "pool", patch, type=PatchType.MERGE, namespace=namespace)
        await eventually(lambda: is_ready(client, namespace))
    assert taken
    child = await client.get(builtin.CONFIG_MAP, "pool-1", namespace=namespace)
    reference = controller_of(child)
    assert reference is not None
    assert reference["name"] == "other"


async def test_a_kept_child_outlives_its_owner_and_serves_the_next_of_its_name(
    client: Client, namespace: str, running: Running
) -> None:
    kind = ChildKind(builtin.CONFIG_MAP, on_removal="keep")
    await client.create(build_pool(namespace, word="a"))
    async with running(build_sharing(kind)):
        await eventually(lambda: is_ready(client, namespace))
        child = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
        assert "ownerReferences" not in child["metadata"]
        assert child["metadata"]["annotations"] == {OWNER: "Pool.pools.example.com/pool"}
        # It is repaired although no reference leads to its owner.
        await client.delete(builtin.CONFIG_MAP, "shared", namespace=namespace)

        async def is_back() -> bool:
            try:
                await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
            except NotFound:
                return False
            return True

        await eventually(is_back)
        await client.create(build_pool(namespace, "thief", word="t"))

        async def is_refused() -> bool:
            message = await stalled(client, namespace, "thief")
            return "it is kept for Pool.pools.example.com/pool" in message

        await eventually(is_refused)
        await client.delete(Pool.resource, "thief", namespace=namespace)
        await client.delete(Pool.resource, "pool", namespace=namespace)
        kept = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
        await client.create(build_pool(namespace, word="b"))

        async def is_taken_up() -> bool:
            found = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
            return bool(found["data"] == {"word": "b"})

        await eventually(is_taken_up)
        again = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
        assert again["metadata"]["uid"] == kept["metadata"]["uid"]


async def test_a_kept_child_that_is_no_longer_desired_stays(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("keeping")

    @operator.desired(Pool, owns=[ChildKind(builtin.CONFIG_MAP, on_removal="keep")])
    def children(pool: Pool) -> Iterable[Object]:
        for number in range(pool.spec.size):
            yield build_map(f"kept-{number}")

    await client.create(build_pool(namespace, size=2))
    async with running(operator):
        await eventually(lambda: is_ready(client, namespace))
        patch = {"spec": {"size": 1}}
        await client.patch(Pool.resource, "pool", patch, type=PatchType.MERGE, namespace=namespace)
        await eventually(lambda: is_ready(client, namespace))
        await asyncio.sleep(0.1)
    await client.get(builtin.CONFIG_MAP, "kept-1", namespace=namespace)


def test_to_keep_and_to_recreate_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match="choose one"):
        ChildKind(builtin.CONFIG_MAP, on_removal="keep", on_immutable="recreate")


async def test_a_child_that_differs_each_time_is_not_recreated_for_ever(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    operator, calls = Operator("restless"), 0

    @operator.desired(Pool, owns=[ChildKind(builtin.CONFIG_MAP, on_immutable="recreate")])
    def children(pool: Pool) -> Iterable[Object]:
        nonlocal calls
        calls += 1
        yield {**build_map("shared", number=str(calls)), "immutable": True}

    await client.create(build_pool(namespace))
    async with running(operator):

        async def is_reported() -> bool:
            # What is impure is not asked again for a state that it left: something must change.
            patch = {"metadata": {"annotations": {"call": str(calls)}}}
            await client.patch(
                Pool.resource, "pool", patch, type=PatchType.MERGE, namespace=namespace
            )
            return "field is immutable" in await stalled(client, namespace, "pool")

        await eventually(is_reported)
        await asyncio.sleep(0.3)
    deleted = [write for write in transport.writes if write.method == "DELETE"]
    assert len(deleted) == 3


async def test_of_two_plans_made_from_one_state_only_the_first_adopts(
    client: Client, namespace: str
) -> None:
    kinds = {builtin.CONFIG_MAP.gvk: ChildKind(builtin.CONFIG_MAP, adopt=True)}
    seen = await client.create(build_map("shared", namespace))
    outcomes = []
    for name in ("one", "two"):
        owner = await client.create(build_pool(namespace, name))
        desired = build_children(owner, [build_map("shared", word=name)], kinds, manager="sharing")
        steps = plan_children(owner, desired, {child_key(seen): seen}, kinds, manager="sharing")
        ctx = cast("Context", BareContext(client))
        memory = AppliedMemory()
        outcomes.append(await apply_plan(ctx, owner, steps, manager="sharing", memory=memory))
    first, second = outcomes
    assert not first.failures
    assert [type(failure) for failure in second.failures] == [Conflict]
    shared = await client.get(builtin.CONFIG_MAP, "shared", namespace=namespace)
    assert shared["data"] == {"word": "one"}


class BareContext:
    """As much of a context as a plan needs that applies one object."""

    clock = SystemClock()

    def __init__(self, client: Client) -> None:
        self._client = client

    async def apply(self, obj: Object, *, field_manager: str) -> Object:
        return await self._client.apply(obj, field_manager=field_manager)
