"""Children of a kind that the API server does not serve: installed later, or never."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from pydantic import BaseModel

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.custom_resource import CustomResource, Status
from kubewright.api.errors import ConfigurationError, NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.child_kind import ChildKind
from kubewright.runtime.gate import Gate
from kubewright.runtime.operator import Operator
from kubewright.runtime.preview import preview_operator
from kubewright.runtime.read import Read, resolve_reads
from tests.runtime.conftest import Running, config_map_names, eventually
from tests.runtime.pools import Pool, build_pool
from tests.runtime.recording import RecordingTransport

pytestmark = pytest.mark.usefixtures("pools_are_served")


class GadgetSpec(BaseModel):
    word: str = ""


class Gadget(CustomResource[GadgetSpec, Status], group="gadgets.example.com", version="v1"):
    """A kind of another project."""


CRD = "gadgets.gadgets.example.com"


async def install(client: Client) -> None:
    other = Operator("other")
    other.reconcile(Gadget)(lambda gadget, ctx: None)
    await other.ensure_crds(client)


@pytest.fixture(autouse=True)
async def without_gadgets(client: Client, namespace: str) -> AsyncIterator[None]:
    """Take the kind away after each test: those of a module may share a server."""
    yield
    try:
        await client.delete(builtin.CUSTOM_RESOURCE_DEFINITION, CRD)
    except NotFound:
        return

    async def is_gone() -> bool:
        try:
            await client.list(Gadget.resource, namespace=namespace)
        except NotFound:
            return True
        return False

    await eventually(is_gone, seconds=30)


def build_gadget(pool: Pool) -> Object:
    return {
        "apiVersion": "gadgets.example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": pool.metadata.name},
        "spec": {"word": pool.spec.word},
    }


def build_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def build_wanting(
    on_missing: Any, *, gated: bool = False, ordered_deletion: bool = False
) -> Operator:
    """Build an operator of which every pool wants a gadget, and then a ConfigMap."""
    operator = Operator("wanting")
    gadget = ChildKind(Gadget.resource, on_missing=on_missing)

    @operator.desired(Pool, owns=[gadget, builtin.CONFIG_MAP], ordered_deletion=ordered_deletion)
    def children(pool: Pool) -> Iterable[Object | Gate]:
        yield build_gadget(pool)
        if gated:
            yield Gate()
        yield build_map(pool.metadata.name)

    return operator


async def read_condition(client: Client, namespace: str, type: str) -> Object:
    pool = await client.get(Pool.resource, "pool", namespace=namespace)
    return find_condition((pool.get("status") or {}).get("conditions") or [], type) or {}


def is_true(client: Client, namespace: str, type: str) -> Callable[[], Any]:
    async def check() -> bool:
        return (await read_condition(client, namespace, type)).get("status") == "True"

    return check


async def gadgets(client: Client, namespace: str) -> list[str]:
    try:
        found = await client.list(Gadget.resource, namespace=namespace)
    except NotFound:
        return []
    return [f"{each['metadata']['name']}={each['spec'].get('word')}" for each in found]


async def test_the_other_children_are_made_and_the_object_says_what_is_missing(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))
    async with running(build_wanting("wait")):
        await eventually(is_true(client, namespace, "Stalled"))

        assert await config_map_names(client, namespace) == ["pool"]
        ready = await read_condition(client, namespace, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "KindNotInstalled")
        assert ready["message"] == (
            f"cannot make Gadget {namespace}/pool: the API server does not serve Gadget in "
            f"gadgets.example.com/v1: install its definition, {CRD}; it is made when that is there"
        )


async def test_an_event_tells_once_what_is_missing(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))

    async def told() -> list[Object]:
        events = await client.list(builtin.EVENT, namespace=namespace)
        return [event for event in events if event["reason"] == "KindNotInstalled"]

    async def is_told() -> bool:
        return bool(await told())

    async with running(build_wanting("wait")):
        await eventually(is_told)
    async with running(build_wanting("wait")):
        change = {"spec": {"word": "b"}}
        await client.patch(Pool.resource, "pool", change, type=PatchType.MERGE, namespace=namespace)

        async def is_observed() -> bool:
            condition = await read_condition(client, namespace, "Ready")
            return bool(condition.get("observedGeneration") == 2)

        await eventually(is_observed)
    assert len(await told()) == 1


async def test_the_child_is_made_when_its_kind_is_installed(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace, word="late"))
    async with running(build_wanting("wait"), speed=20):
        await eventually(is_true(client, namespace, "Stalled"))
        await install(client)

        await eventually(is_true(client, namespace, "Ready"))

    assert await gadgets(client, namespace) == ["pool=late"]


async def test_a_missing_kind_is_asked_for_now_and_then_only(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    """No retry storm: the objects are not retried at all, the kind is listed every half minute."""
    for number in range(20):
        await client.create(build_pool(namespace, f"pool-{number}"))
    async with running(build_wanting("wait"), speed=100) as manager:

        async def all_told() -> bool:
            pools = await client.list(Pool.resource, namespace=namespace)
            return all((pool.get("status") or {}).get("observedGeneration") for pool in pools)

        await eventually(all_told)
        [asking] = [each for each in manager.cache.reflectors if "gadgets" in str(each)]
        written, asked, began = len(transport.writes), asking.failures, manager.clock.monotonic()
        await manager.clock.sleep(120)

        assert len(transport.writes) == written
        assert asking.failures - asked <= 3 + (manager.clock.monotonic() - began) / 8
        assert asking.failing_since is None, "readiness must not suffer"


async def test_a_kind_that_goes_is_told_and_waited_for_again(
    client: Client, namespace: str, running: Running
) -> None:
    await install(client)
    await client.create(build_pool(namespace))
    async with running(build_wanting("wait"), speed=20):
        await eventually(is_true(client, namespace, "Ready"))
        await client.delete(builtin.CUSTOM_RESOURCE_DEFINITION, CRD)

        async def is_told() -> bool:
            # Until its watch has ended, the operator only sees that its writes fail.
            ready = await read_condition(client, namespace, "Ready")
            return bool(ready["reason"] == "KindNotInstalled")

        await eventually(is_told, seconds=30)
        await install(client)
        await eventually(is_true(client, namespace, "Ready"))

    assert await gadgets(client, namespace) == ["pool=a"]


async def test_what_can_be_skipped_does_not_keep_an_object_from_being_ready(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))
    async with running(build_wanting("skip", gated=True), speed=20):
        await eventually(is_true(client, namespace, "Ready"))
        assert await config_map_names(client, namespace) == ["pool"]

        await install(client)

        async def is_made() -> bool:
            return await gadgets(client, namespace) == ["pool=a"]

        await eventually(is_made)


async def test_a_missing_kind_keeps_a_gate_closed(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace))
    async with running(build_wanting("wait", gated=True), speed=20):
        await eventually(is_true(client, namespace, "Stalled"))
        assert await config_map_names(client, namespace) == []

        await install(client)
        await eventually(is_true(client, namespace, "Ready"))

    assert await config_map_names(client, namespace) == ["pool"]


async def test_an_object_ends_though_a_kind_is_missing(
    client: Client, namespace: str, running: Running
) -> None:
    """What cannot exist need not be deleted, also where children go in order."""
    await client.create(build_pool(namespace))
    async with running(build_wanting("wait", ordered_deletion=True)):
        await eventually(is_true(client, namespace, "Stalled"))
        await client.delete(Pool.resource, "pool", namespace=namespace)

        async def is_gone() -> bool:
            try:
                await client.get(Pool.resource, "pool", namespace=namespace)
            except NotFound:
                return True
            return False

        await eventually(is_gone)


async def test_an_operator_that_cannot_do_without_a_kind_does_not_start(
    client: Client, namespace: str
) -> None:
    from kubewright.runtime.manager import Manager

    manager = Manager(client, namespaces=[namespace])
    build_wanting("block").add_to(manager)

    assert not manager.cache.store(Gadget.resource).optional


async def test_a_preview_says_what_cannot_be_made(client: Client, namespace: str) -> None:
    await client.create(build_pool(namespace))

    previews = preview_operator(client, build_wanting("wait"), namespaces=[namespace])
    [changes] = [preview.changes async for preview in previews]

    assert [change.step.action.value for change in changes] == ["cannot make", "create"]


async def test_a_preview_refuses_where_the_operator_would_not_start(
    client: Client, namespace: str
) -> None:
    await client.create(build_pool(namespace))

    with pytest.raises(ConfigurationError, match="does not serve gadgets"):
        async for _ in preview_operator(client, build_wanting("block"), namespaces=[namespace]):
            pass


def test_an_unknown_decision_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="write block or wait or skip"):
        build_wanting("retry")


def test_a_kind_held_whole_may_be_optional() -> None:
    optional = Read(Gadget.resource, optional=True)

    assert resolve_reads({Gadget.resource}, (optional,), ()) == {Gadget.resource: optional}


def test_of_two_users_of_a_kind_the_one_that_needs_it_decides() -> None:
    from kubewright.cache.cache import Cache

    cache = Cache(Client(None))  # type: ignore[arg-type]  # nothing is asked

    store = cache.store(Gadget.resource, optional=True)
    assert store.optional
    assert cache.store(Gadget.resource) is store
    assert not store.optional
