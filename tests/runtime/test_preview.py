"""A preview tells what a reconcile would do, with the server's own word, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.child_kind import ChildKind
from kubewright.runtime.gate import Gate
from kubewright.runtime.operator import Operator
from kubewright.runtime.preview import Preview, preview_operator
from tests.runtime.conftest import Running, config_map_names, eventually
from tests.runtime.pools import Pool, build_config_map, build_operator, build_pool
from tests.runtime.recording import RecordingTransport

pytestmark = pytest.mark.usefixtures("pools_are_served")


async def preview(client: Client, operator: Operator, namespace: str) -> list[Preview]:
    found = preview_operator(client, operator, namespaces=[namespace])
    return [each async for each in found]


def steps_of(previews: list[Preview]) -> list[str]:
    return [
        f"{change.step.action.value} {change.step.kind.resource.kind} {change.step.key.name}"
        for each in previews
        for change in each.changes
    ]


async def test_what_would_be_made_is_shown_with_the_servers_defaults(
    client: Client, namespace: str, transport: RecordingTransport
) -> None:
    await client.create(build_pool(namespace, web=True))
    transport.writes.clear()
    previews = await preview(client, build_operator(), namespace)
    assert steps_of(previews) == [
        "create ConfigMap pool-0",
        "create Service pool",
        "create Deployment pool",
    ]
    assert "+        terminationMessagePath: /dev/termination-log" in previews[0].changes[2].diff
    assert await config_map_names(client, namespace) == []
    # Dry runs are requests all the same; nothing else was sent.
    assert all(write.method == "PATCH" for write in transport.writes)
    pool = await client.get(Pool.resource, "pool", namespace=namespace)
    assert "status" not in pool


async def test_what_would_change_and_go_is_shown(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace, size=2))
    async with running(build_operator()):

        async def are_there() -> bool:
            return await config_map_names(client, namespace) == ["pool-0", "pool-1"]

        await eventually(are_there)
    assert [each.is_empty for each in await preview(client, build_operator(), namespace)] == [True]
    patch: Object = {"spec": {"size": 1, "word": "b"}}
    await client.patch(Pool.resource, "pool", patch, type=PatchType.MERGE, namespace=namespace)
    previews = await preview(client, build_operator(), namespace)
    assert steps_of(previews) == ["apply ConfigMap pool-0", "delete ConfigMap pool-1"]
    change, deletion = previews[0].changes
    assert "-  word: a\n+  word: b" in change.diff
    assert "+++ /dev/null" in deletion.diff
    assert await config_map_names(client, namespace) == ["pool-0", "pool-1"]


async def test_what_would_be_refused_or_held_back_is_told(client: Client, namespace: str) -> None:
    operator = Operator("pool-operator")

    @operator.desired(Pool, owns=[ChildKind(builtin.CONFIG_MAP, on_immutable="recreate")])
    def children(pool: Pool) -> Iterable[Object | Gate]:
        if pool.spec.word == "bad":
            raise KeyError("word")
        yield {**build_config_map(pool, 0), "immutable": True}
        yield Gate()
        yield {**build_config_map(pool, 1), "data": {"a": "b"}}
        yield {**build_config_map(pool, 2), "data": {"a": 5}}

    await client.create(build_pool(namespace, "bad", word="bad"))
    await client.create(build_pool(namespace, "good"))
    bad, good = await preview(client, operator, namespace)
    assert bad.problem.startswith("KeyError: 'word' (runtime/test_preview.py:")
    assert steps_of([good]) == [
        "create ConfigMap good-0",
        "hold back ConfigMap good-1",
        "hold back ConfigMap good-2",
    ]
    first = good.changes[0].step.obj
    assert first is not None
    await client.apply({**first, "data": {"word": "old"}}, field_manager="pool-operator")
    _, good = await preview(client, operator, namespace)
    assert good.changes[0].problem.startswith("it is deleted and made anew: ")


async def test_a_kind_that_is_not_served_is_named(client: Client, namespace: str) -> None:
    operator = Operator("absent")

    @operator.desired(Resource("absent.example.com", "v1", "Thing", "things"), owns=[])
    def children(thing: Object) -> Iterable[Object]:
        return []

    with pytest.raises(ConfigurationError, match=r"does not serve things\.absent\.example\.com"):
        await preview(client, operator, namespace)
