"""What a faulty operator gets: a sentence with file, line and field; nobody else is harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.children import Children
from kubewright.runtime.context import Context
from kubewright.runtime.operator import Operator
from kubewright.runtime.result import Result
from tests.runtime.conftest import Running, config_map_names, eventually
from tests.runtime.pools import Pool, build_pool

pytestmark = pytest.mark.usefixtures("pools_are_served")


async def find_true(client: Client, namespace: str, name: str, type: str) -> Object | None:
    pool = await client.get(Pool.resource, name, namespace=namespace)
    condition = find_condition((pool.get("status") or {}).get("conditions") or [], type)
    return condition if condition is not None and condition["status"] == "True" else None


async def wait_for(client: Client, namespace: str, type: str, name: str = "pool") -> Object:
    """Wait until a condition is true, and return it."""
    found: list[Object] = []

    async def is_true() -> bool:
        condition = await find_true(client, namespace, name, type)
        if condition is not None:
            found.append(condition)
        return condition is not None

    await eventually(is_true)
    return found[0]


def child(name: str, **data: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def build_faulty(make: Callable[[Pool], Any], **options: Any) -> Operator:
    """Build an operator whose desired function is faulty for pools with the word `bad`."""
    operator = Operator("faulty", **options)

    @operator.desired(Pool, owns=[builtin.CONFIG_MAP])
    def children(pool: Pool) -> Iterable[Object]:
        if pool.spec.word == "bad":
            made: Iterable[Object] = make(pool)
            return made
        return [child(pool.metadata.name, word=pool.spec.word)]

    return operator


async def never(pool: Pool) -> None:
    return None


def shrink(pool: Pool) -> list[Object]:
    raise ValueError("too small")


def leave(pool: Pool) -> list[Object]:
    raise SystemExit(3)


def late(pool: Pool) -> Iterable[Object]:
    yield child("first")
    raise KeyError("second")


DESIRED: dict[str, tuple[Any, str, str]] = {
    "raises": (shrink, "DesiredFailed", "ValueError: too small"),
    "raises amid its children": (late, "DesiredFailed", "KeyError: 'second'"),
    "None": (lambda pool: None, "DesiredFailed", "desired returned None"),
    "text": (lambda pool: "child", "DesiredFailed", "desired returned a str"),
    "one child": (lambda pool: child("x"), "DesiredFailed", "return a list with it"),
    "coroutine": (never, "DesiredFailed", "desired returned a coroutine"),
    "no object": (lambda pool: ["x"], "InvalidChild", "a desired child is a str"),
    "a model": (lambda pool: [pool.spec], "InvalidChild", "a desired child is a PoolSpec"),
    "no kind": (
        lambda pool: [{"apiVersion": "v1", "metadata": {"name": "x"}}],
        "InvalidChild",
        "a desired child x: kind: it must be a text",
    ),
    "metadata as list": (
        lambda pool: [{**child("x"), "metadata": []}],
        "InvalidChild",
        "ConfigMap: metadata: it must be a dict",
    ),
    "a label as number": (
        lambda pool: [{**child("x"), "metadata": {"name": "x", "labels": {"n": 1}}}],
        "InvalidChild",
        "ConfigMap x: metadata.labels[n]: it must be a text, not 1",
    ),
    "a time": (
        lambda pool: [child("x", at=datetime(2026, 1, 1, tzinfo=UTC))],
        "InvalidChild",
        "ConfigMap x: data.at: a datetime is no JSON",
    ),
    "a set": (
        lambda pool: [child("x", all={1, 2})],
        "InvalidChild",
        "ConfigMap x: data.all: a set is no JSON",
    ),
    "not a number": (
        lambda pool: [child("x", n=float("nan"))],
        "InvalidChild",
        "ConfigMap x: data.n: nan is a number that JSON cannot hold",
    ),
    "another namespace": (
        lambda pool: [{**child("x"), "metadata": {"name": "x", "namespace": "other"}}],
        "InvalidChild",
        "owner references cannot cross namespaces",
    ),
    "an exit": (leave, "DesiredFailed", "SystemExit: 3"),
    "a name that is a path": (
        lambda pool: [child("../secrets/x")],
        "InvalidChild",
        "metadata.name: '../secrets/x': a name is not '.' or '..'",
    ),
    "a name that no object can have": (
        lambda pool: [child("Bad_Name")],
        "Invalid",
        'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name"',
    ),
}


async def test_half_of_a_character_is_reported_by_its_field(
    client: Client, namespace: str, running: Running
) -> None:
    await client.create(build_pool(namespace, "pool", word="bad"))
    async with running(build_faulty(lambda pool: [child("x", word="\ud83d"), child("y")])):
        condition = await wait_for(client, namespace, "Stalled")
    says = f"ConfigMap {namespace}/x: data.word is no text that UTF-8 can hold"
    assert condition["message"].startswith(says)
    assert await config_map_names(client, namespace) == ["y"]


@pytest.mark.parametrize("fault", DESIRED)
async def test_a_faulty_desired_stalls_its_object_and_no_other(
    client: Client, namespace: str, running: Running, fault: str
) -> None:
    make, reason, says = DESIRED[fault]
    await client.create(build_pool(namespace, "pool", word="bad"))
    await client.create(build_pool(namespace, "other", word="good"))
    async with running(build_faulty(make)):
        condition = await wait_for(client, namespace, "Stalled")
        await wait_for(client, namespace, "Ready", "other")
        assert condition["reason"] == reason
        assert says in condition["message"]
        assert "runtime/test_bad_input.py:" in condition["message"]
        assert await config_map_names(client, namespace) == ["other"]
        patch = {"spec": {"word": "good"}}
        await client.patch(Pool.resource, "pool", patch, type=PatchType.MERGE, namespace=namespace)
        await wait_for(client, namespace, "Ready")


async def test_a_value_of_a_wrong_type_is_reported_by_its_field(
    client: Client, namespace: str, running: Running
) -> None:
    """The server says 500 of it, so it is tried again: a schema may lag behind its operator."""
    await client.create(build_pool(namespace, word="bad"))
    async with running(build_faulty(lambda pool: [child("x", n=1)]), speed=50):
        condition = await wait_for(client, namespace, "Stalled")
    assert ".data.n: expected string" in condition["message"]
    assert "runtime/test_bad_input.py:" in condition["message"]


@pytest.mark.parametrize(
    ("verdict", "reason", "says"),
    [
        (KeyError("limits"), "ValidateFailed", "KeyError: 'limits' (runtime/test_bad_input.py:"),
        (ValueError("spec.word: bad"), "Invalid", "spec.word: bad"),
        (True, "ValidateFailed", "TypeError: 'bool' object is not iterable"),
    ],
)
async def test_a_faulty_validate_stalls_its_object(
    client: Client, namespace: str, running: Running, verdict: Any, reason: str, says: str
) -> None:
    operator = build_faulty(lambda pool: [])

    @operator.validate(Pool)
    def check(new: Pool, old: Pool | None) -> Any:
        if new.spec.word != "bad":
            return None
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    await client.create(build_pool(namespace, word="bad"))
    async with running(operator):
        condition = await wait_for(client, namespace, "Stalled")
    assert condition["reason"] == reason
    assert condition["message"].startswith(says)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("fine", "TypeError: status returned a str"),
        ({"members": {1}}, "TypeError: status.members: a set is no JSON"),
        ({"conditions": ["Ready"]}, "TypeError: status.conditions: it must be a list"),
        ({"colour": "red"}, ".status.colour: field not declared in schema"),
    ],
)
async def test_a_faulty_status_is_tried_again_and_then_stalls(
    client: Client, namespace: str, running: Running, value: Any, says: str
) -> None:
    operator = build_faulty(lambda pool: [])

    @operator.status(Pool)
    def status(pool: Pool, children: Children) -> Any:
        return value

    await client.create(build_pool(namespace))
    async with running(operator, speed=50):
        condition = await wait_for(client, namespace, "Stalled")
    assert says in condition["message"]
    assert await config_map_names(client, namespace) == ["pool"]


async def test_a_reconcile_that_returns_nonsense_is_told(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_faulty(lambda pool: [])

    @operator.reconcile(Pool)
    async def day2(pool: Pool, ctx: Context) -> Any:
        return timedelta(seconds=30)

    await client.create(build_pool(namespace))
    async with running(operator, speed=50):
        condition = await wait_for(client, namespace, "Stalled")
    assert condition["message"].startswith(
        "TypeError: a timedelta was returned: return a Result or None (runtime/test_bad_input.py:"
    )


async def test_a_reconcile_that_hangs_is_cancelled_and_leaves_its_worker_to_others(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_faulty(
        lambda pool: [], workers=1, reconcile_timeout=timedelta(milliseconds=20)
    )

    @operator.reconcile(Pool)
    async def day2(pool: Pool, ctx: Context) -> Result | None:
        if pool.spec.word == "bad":
            await asyncio.Event().wait()
        return None

    await client.create(build_pool(namespace, word="bad"))
    await client.create(build_pool(namespace, "other"))
    async with running(operator, speed=50):
        await wait_for(client, namespace, "Ready", "other")
        condition = await wait_for(client, namespace, "Stalled")
    assert condition["reason"] == "ReconcileTimeout"
    assert "it did not end in 0:00:00.020000 and was cancelled" in condition["message"]


async def test_what_functions_do_to_their_arguments_stays_with_them(
    client: Client, namespace: str, running: Running
) -> None:
    operator, seen = Operator("mutating"), []
    constant = child("pool", word="a")

    @operator.validate(Pool)
    def check(new: Pool, old: Pool | None) -> None:
        seen.append(("validate", new.spec.word, old.spec.word if old else None))
        new.spec.word = "spoiled"

    @operator.desired(Pool, owns=[builtin.CONFIG_MAP])
    def children(pool: Pool) -> Iterable[Object]:
        seen.append(("desired", pool.spec.word, None))
        pool.spec.word = "spoiled"
        pool.metadata.name = "spoiled"
        yield constant

    @operator.reconcile(Pool)
    async def day2(pool: Pool, ctx: Context) -> Result | None:
        seen.append(("reconcile", pool.spec.word, None))
        for obj in ctx.list(builtin.CONFIG_MAP):
            obj.clear()
        pool.spec.word = "spoiled"
        return None

    @operator.status(Pool)
    def status(pool: Pool, children: Children) -> Object:
        seen.append(("status", pool.spec.word, None))
        members = [obj["metadata"].pop("name") for obj in children]
        return {"members": members}

    await client.create(build_pool(namespace))
    async with running(operator):
        await wait_for(client, namespace, "Ready")
        # Before the change: it may be worked on before its writer has the answer.
        rounds = len(seen)
        await client.patch(
            Pool.resource,
            "pool",
            {"metadata": {"labels": {"a": "b"}}},
            type=PatchType.MERGE,
            namespace=namespace,
        )

        async def has_looked_again() -> bool:
            return len(seen) >= rounds + 4

        await eventually(has_looked_again)
        await wait_for(client, namespace, "Ready")
    assert {word for _, word, _ in seen} == {"a"}
    assert {old for role, _, old in seen if role == "validate"} == {None, "a"}
    assert constant == child("pool", word="a")


async def test_finalize_that_fails_ten_times_stalls_and_is_still_tried(
    client: Client, namespace: str, running: Running
) -> None:
    operator, works = build_faulty(lambda pool: []), False

    @operator.finalize(Pool)
    async def clean_up(pool: Pool, ctx: Context) -> Result | None:
        if not works:
            raise ConnectionError("the backup is not reachable")
        return None

    await client.create(build_pool(namespace))
    async with running(operator, speed=50):
        await wait_for(client, namespace, "Ready")
        await client.delete(Pool.resource, "pool", namespace=namespace)
        condition = await wait_for(client, namespace, "Stalled")
        assert condition["message"].startswith("ConnectionError: the backup is not reachable (")
        works = True
        await eventually(lambda: is_gone(client, namespace))


async def is_gone(client: Client, namespace: str) -> bool:
    pools = await client.list(Pool.resource, namespace=namespace)
    return not pools.items
