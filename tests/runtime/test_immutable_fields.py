"""A field that may never change: the child is kept and reported, or made anew, as its kind says."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.child_kind import ChildKind
from kubewright.runtime.operator import Operator
from tests.runtime.conftest import Running, eventually
from tests.runtime.kinds_of_children import CHILDREN
from tests.runtime.pools import Pool, build_pool
from tests.runtime.recording import RecordingTransport


def change_selector(obj: Object) -> None:
    obj["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    obj["spec"]["template"]["metadata"]["labels"] = {"app": "other"}


def change_claim(obj: Object) -> None:
    (template,) = obj["spec"]["volumeClaimTemplates"]
    template["spec"]["resources"]["requests"]["storage"] = "2Gi"


def change_image(obj: Object) -> None:
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = "b"


CHANGES: dict[str, Callable[[Object], None]] = {
    "Deployment": change_selector,
    "StatefulSet": change_claim,
    "DaemonSet": change_selector,
    "Service": lambda obj: obj["spec"].update(clusterIP="None"),
    "Job": change_image,
    "ConfigMap": lambda obj: obj["data"].update(a="2"),
    "Secret": lambda obj: obj.update(type="example.com/other"),
    "RoleBinding": lambda obj: obj["roleRef"].update(name="other"),
}
"""By name of a child, a change that the API refuses."""


def build_first(name: str) -> Object:
    obj = copy.deepcopy(CHILDREN[name])
    if name == "ConfigMap":
        obj["immutable"] = True
    return obj


def build_changed(name: str) -> Object:
    obj = build_first(name)
    CHANGES[name](obj)
    return obj


def build_operator(name: str, **decisions: Any) -> Operator:
    operator = Operator("immutable")
    gvk = GroupVersionKind.of(CHILDREN[name])
    resource = next(value for value in vars(builtin).values() if getattr(value, "gvk", None) == gvk)

    @operator.desired(Pool, owns=[ChildKind(resource, **decisions)])
    def children(pool: Pool) -> Iterable[Object]:
        yield build_changed(name) if pool.spec.word == "b" else build_first(name)

    return operator


async def start(client: Client, namespace: str, operator: Operator, transport: Any) -> Object:
    """Let the operator make the first child, then ask for the other one."""
    (managed,) = operator.kinds
    ((_, kind),) = managed.owns.items()

    async def exists() -> bool:
        return any(write.method == "PATCH" and "web" in write.path for write in transport.writes)

    await eventually(exists)
    first = await client.get(kind.resource, "web", namespace=namespace)
    patch = {"spec": {"word": "b"}}
    await client.patch(Pool.resource, "pool", patch, type=PatchType.MERGE, namespace=namespace)
    return first


@pytest.mark.parametrize("name", CHANGES)
async def test_a_child_is_kept_and_reported(
    client: Client, namespace: str, running: Running, transport: RecordingTransport, name: str
) -> None:
    operator = build_operator(name)
    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    async with running(operator):
        first = await start(client, namespace, operator, transport)

        async def is_reported() -> bool:
            pool = await client.get(Pool.resource, "pool", namespace=namespace)
            conditions = (pool.get("status") or {}).get("conditions") or []
            stalled = find_condition(conditions, "Stalled")
            return stalled is not None and stalled["reason"] == "Invalid"

        await eventually(is_reported)
        kind = next(iter(operator.kinds[0].owns.values()))
        kept = await client.get(kind.resource, "web", namespace=namespace)
        assert kept["metadata"]["uid"] == first["metadata"]["uid"]
    assert [write for write in transport.writes if write.method == "DELETE"] == []


@pytest.mark.parametrize("name", CHANGES)
async def test_a_child_is_made_anew_once(
    client: Client, namespace: str, running: Running, transport: RecordingTransport, name: str
) -> None:
    operator = build_operator(name, on_immutable="recreate")
    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    async with running(operator):
        first = await start(client, namespace, operator, transport)
        kind = next(iter(operator.kinds[0].owns.values()))

        async def is_new() -> bool:
            found = (await client.list(kind.resource, namespace=namespace)).items
            web = [obj for obj in found if obj["metadata"]["name"] == "web"]
            return bool(web) and web[0]["metadata"]["uid"] != first["metadata"]["uid"]

        await eventually(is_new)
    deletions = [write for write in transport.writes if write.method == "DELETE"]
    assert len(deletions) == 1


@pytest.mark.parametrize("name", ["ConfigMap", "Service"])
async def test_is_not_ready_between_the_end_of_a_child_and_its_new_beginning(
    client: Client, namespace: str, running: Running, transport: RecordingTransport, name: str
) -> None:
    operator = build_operator(name, on_immutable="recreate")
    await operator.ensure_crds(client)
    before = await client.create(build_pool(namespace))
    async with running(operator):
        await start(client, namespace, operator, transport)
        ready = await _first_ready_version(client, before, generation=2)
    kind = next(iter(operator.kinds[0].owns.values()))
    child = await client.get(kind.resource, "web", namespace=namespace)
    # Versions of all kinds come from one counter: the newest of the child is that of its creation.
    assert int(child["metadata"]["resourceVersion"]) < int(ready)


async def _first_ready_version(client: Client, pool: Object, *, generation: int) -> str:
    """Return the version at which an object was first said to be ready in a generation."""
    metadata = pool["metadata"]
    watch = client.watch(
        Pool.resource,
        namespace=metadata["namespace"],
        resource_version=metadata["resourceVersion"],
    )
    async with asyncio.timeout(10), watch as events:
        async for event in events:
            status = msgspec.json.decode(event.raw).get("status") or {}
            ready = find_condition(status.get("conditions") or [], "Ready")
            is_ready = ready is not None and ready["status"] == "True"
            if is_ready and status["observedGeneration"] == generation:
                return event.meta.resource_version
    raise AssertionError("the watch ended before the object was ready")


async def test_where_a_suspended_job_runs_may_change(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    """A refusal is the API's word, not a list of fields of ours."""
    operator = Operator("mutable")

    @operator.desired(Pool, owns=[ChildKind(builtin.JOB)])
    def children(pool: Pool) -> Iterable[Object]:
        job = build_first("Job")
        job["spec"]["template"]["spec"]["nodeSelector"] = {"zone": pool.spec.word}
        yield job

    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    async with running(operator):
        first = await start(client, namespace, operator, transport)

        async def has_moved() -> bool:
            job = await client.get(builtin.JOB, "web", namespace=namespace)
            assert job["metadata"]["uid"] == first["metadata"]["uid"]
            return bool(job["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "b"})

        await eventually(has_moved)
