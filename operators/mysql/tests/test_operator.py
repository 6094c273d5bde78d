"""The operator in a cluster in memory: killed anywhere, it ends in the same state."""

from __future__ import annotations

import pytest

from kubewright import builtin
from kubewright.api.resource import Object
from kubewright.client import PatchType
from kubewright.testing import Cluster, crash_points
from kubewright.testing.crash_oracle import Step
from mysql_operator import MySQL, operator


async def create(cluster: Cluster) -> None:
    await cluster.client.create(
        {
            "apiVersion": "operators.example.com/v1alpha1",
            "kind": "MySQL",
            "metadata": {"name": "shop", "namespace": cluster.namespace},
            "spec": {"mysqlVersion": "8.0", "deletionPolicy": "Delete"},
        }
    )


async def upgrade(cluster: Cluster) -> None:
    change = {"spec": {"mysqlVersion": "8.4"}}
    await cluster.client.patch(
        MySQL.resource, "shop", change, type=PatchType.MERGE, namespace=cluster.namespace
    )


async def delete(cluster: Cluster) -> None:
    await cluster.client.delete(MySQL.resource, "shop", namespace=cluster.namespace)


def without_chance(obj: Object) -> None:
    """Take out what is drawn at random."""
    if obj["kind"] == "Secret":
        obj["data"] = sorted(obj["data"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("given", "act"),
    [
        pytest.param(None, create, id="creation"),
        pytest.param(create, upgrade, id="upgrade"),
        pytest.param(create, delete, id="deletion"),
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
        kinds=(builtin.SECRET, builtin.DEPLOYMENT, builtin.CRON_JOB, builtin.JOB),
        normalise=without_chance,
    )

    report.verify()
