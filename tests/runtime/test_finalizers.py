"""Finalizers change by position and test, so that nobody drops another's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from kubewright.api import builtin
from kubewright.api.errors import APIError, Conflict, Invalid, NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import NO_HEADERS, Query, Response
from kubewright.runtime.context import Context
from kubewright.runtime.finalizers import plan_ensure_finalizer, plan_remove_finalizer
from kubewright.runtime.operator import Operator
from kubewright.runtime.result import Result
from tests.runtime.conftest import Running, eventually
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.runtime.recording import RecordingTransport

MINE = "pools.example.com/operator"
SAME = {"op": "test", "path": "/metadata/uid", "value": "u"}


def build(*finalizers: str) -> Object:
    metadata: Object = {"name": "x", "resourceVersion": "7", "uid": "u"}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def test_the_first_finalizer_makes_the_list_only_for_the_version_that_was_read() -> None:
    assert plan_ensure_finalizer(build(), MINE) == [
        SAME,
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/finalizers", "value": [MINE]},
    ]


def test_a_further_finalizer_is_appended() -> None:
    assert plan_ensure_finalizer(build("other"), MINE) == [
        SAME,
        {"op": "add", "path": "/metadata/finalizers/-", "value": MINE},
    ]


def test_a_finalizer_is_removed_where_it_stands() -> None:
    assert plan_remove_finalizer(build("other", MINE, "third"), MINE) == [
        SAME,
        {"op": "test", "path": "/metadata/finalizers/1", "value": MINE},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]


def test_nothing_to_do_is_no_patch() -> None:
    assert plan_ensure_finalizer(build(MINE), MINE) == []
    assert plan_remove_finalizer(build("other"), MINE) == []


FINALIZER = "pools.example.com/pool-operator"


class RefusingTransport(RecordingTransport):
    """Refuse the next patches whose body names a word."""

    refusals: list[APIError]
    word = b""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if method == "PATCH" and self.word in body and self.refusals:
            error = self.refusals.pop()
            return Response(error.code, {}, to_body(error))
        return await super().request(method, path, query=query, headers=headers, body=body)


def to_body(error: APIError) -> bytes:
    return msgspec.json.encode(error.to_status())


def build_cleaning(done: list[str]) -> Operator:
    operator = build_operator()

    @operator.finalize(Pool)
    async def clean_up(pool: Pool, ctx: Context) -> Result | None:
        done.append(pool.metadata.uid)
        return None

    return operator


async def finalizers_of(client: Client, namespace: str) -> list[str]:
    pool = await client.get(Pool.resource, "pool", namespace=namespace)
    return list(pool["metadata"].get("finalizers") or [])


async def holds(client: Client, namespace: str) -> bool:
    return FINALIZER in await finalizers_of(client, namespace)


async def is_gone(client: Client, namespace: str) -> bool:
    try:
        await client.get(Pool.resource, "pool", namespace=namespace)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize("refusal", [Conflict("changed"), Invalid("test failed")])
async def test_a_refused_removal_is_tried_again_until_it_is_done(
    client: Client,
    namespace: str,
    running: Running,
    transport: RecordingTransport,
    refusal: APIError,
) -> None:
    done: list[str] = []
    operator = build_cleaning(done)
    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    refusing = RefusingTransport(transport)
    refusing.word, refusing.refusals = b'"remove"', [refusal] * 3
    async with running(operator, through=refusing):
        await eventually(lambda: holds(client, namespace))
        await client.delete(Pool.resource, "pool", namespace=namespace)
        await eventually(lambda: is_gone(client, namespace))
    assert refusing.refusals == []
    assert len(done) == 4


async def test_a_namesake_keeps_its_own_finalizer(client: Client, namespace: str) -> None:
    """A plan made for an object that was deleted and made again must not touch the new one."""
    await build_operator().ensure_crds(client)
    pool = build_pool(namespace)
    pool["metadata"]["finalizers"] = [FINALIZER]
    first = await client.create(pool)
    patch = plan_remove_finalizer(first, FINALIZER)
    await client.patch(Pool.resource, "pool", patch, type=PatchType.JSON, namespace=namespace)
    await client.delete(Pool.resource, "pool", namespace=namespace)
    await client.create(pool)
    with pytest.raises(APIError) as refused:
        await client.patch(Pool.resource, "pool", patch, type=PatchType.JSON, namespace=namespace)
    assert refused.value.code == 422
    assert await holds(client, namespace)


async def test_an_object_that_ends_while_its_clean_up_waits_is_forgotten(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody takes all finalizers out by force."""
    operator, waits, goes_on = build_operator(), asyncio.Event(), asyncio.Event()

    @operator.finalize(Pool)
    async def clean_up(pool: Pool, ctx: Context) -> Result | None:
        waits.set()
        await goes_on.wait()
        return None

    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(lambda: holds(client, namespace))
        await client.delete(Pool.resource, "pool", namespace=namespace)
        await waits.wait()
        released: Object = {"metadata": {"finalizers": None}}
        await client.patch(
            Pool.resource, "pool", released, type=PatchType.MERGE, namespace=namespace
        )
        await eventually(lambda: is_gone(client, namespace))
        goes_on.set()
        await client.create(build_pool(namespace))
        await eventually(lambda: holds(client, namespace))
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_an_object_in_a_namespace_that_goes_away_is_cleaned_up_too(
    client: Client, namespace: str, running: Running
) -> None:
    """The finalizer comes first: it can be added where children can no longer be."""
    done: list[str] = []
    operator = build_cleaning(done)
    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    await client.delete(builtin.NAMESPACE, namespace)
    async with running(operator):
        await eventually(lambda: holds(client, namespace))
        await client.delete(Pool.resource, "pool", namespace=namespace)
        await eventually(lambda: is_gone(client, namespace))
    assert len(done) == 1
