"""The operator in a cluster in memory: passwords once, no write without need, killed anywhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubewright import builtin
from kubewright.api.resource import Object
from kubewright.client import PatchType
from kubewright.testing import Cluster, consistently, crash_points, eventually
from kubewright.testing.crash_oracle import Step
from postgres_operator import Database, operator


def build_database(cluster: Cluster, **spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "metadata": {"name": "shop", "namespace": cluster.namespace},
        "spec": {"version": "15", "size": "medium", **spec},
    }


async def create(cluster: Cluster) -> None:
    await cluster.client.create(build_database(cluster, backup_enabled=True))


async def patch(cluster: Cluster, **spec: Any) -> None:
    await cluster.client.patch(
        Database.resource, "shop", {"spec": spec}, type=PatchType.MERGE, namespace=cluster.namespace
    )


async def shrink(cluster: Cluster) -> None:
    await patch(cluster, size="small", backup_enabled=False)


async def grow_volume(cluster: Cluster) -> None:
    await patch(cluster, storage="2Gi")


async def names(cluster: Cluster, kind: Any) -> list[str]:
    found = await cluster.client.list(kind, namespace=cluster.namespace)
    return sorted(obj["metadata"]["name"] for obj in found)


async def test_passwords_are_made_once(cluster: Cluster) -> None:
    await cluster.install(operator)
    await create(cluster)
    async with cluster.run(operator):
        await eventually(lambda: names(cluster, builtin.STATEFUL_SET), ["shop"].__eq__)
    before = await cluster.client.get(builtin.SECRET, "shop-app", namespace=cluster.namespace)
    async with cluster.run(operator):
        await patch(cluster, size="large")
        await eventually(lambda: read_replicas(cluster), (3).__eq__)
    after = await cluster.client.get(builtin.SECRET, "shop-app", namespace=cluster.namespace)

    assert before == after
    assert set(before["data"]) == {"username", "password", "database", "host", "port", "uri"}


async def read_replicas(cluster: Cluster) -> int:
    found = await cluster.client.get(builtin.STATEFUL_SET, "shop", namespace=cluster.namespace)
    return int(found["spec"]["replicas"])


async def test_a_second_look_writes_nothing(cluster: Cluster) -> None:
    await cluster.install(operator)
    await create(cluster)

    async def revision() -> str:
        found = await cluster.client.list(Database.resource, namespace=cluster.namespace)
        return found.resource_version

    async with cluster.run(operator):
        await eventually(lambda: names(cluster, builtin.CRON_JOB), lambda found: len(found) == 2)
        await asyncio.sleep(0.3)
        before = await revision()
    async with cluster.run(operator):
        await consistently(revision, before.__eq__)


def without_chance(obj: Object) -> None:
    """Take out what is drawn at random."""
    if obj["kind"] == "Secret":
        obj["data"] = sorted(obj["data"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("given", "act"),
    [
        pytest.param(None, create, id="creation"),
        pytest.param(create, shrink, id="fewer instances, no backups"),
        pytest.param(create, grow_volume, id="larger volumes"),
    ],
)
async def test_it_ends_in_the_same_state_wherever_it_is_killed(
    given: Step | None, act: Step
) -> None:
    report = await crash_points(
        operator,
        act,
        given=given,
        controllers=("garbage-collector",),
        kinds=(builtin.SECRET, builtin.CONFIG_MAP, builtin.STATEFUL_SET, builtin.CRON_JOB),
        normalise=without_chance,
    )

    report.verify()
