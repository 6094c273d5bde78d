"""The Memcached operator, killed at every call: it ends where it would have ended."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager

import pytest

from kubewright.api import builtin
from kubewright.api.conditions import is_condition_true
from kubewright.api.resource import Object
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.requests import PatchType
from kubewright.testing import Cluster, cluster_at, crash_points, embedded_cluster
from kubewright.testing.crash_oracle import Step
from memcached_operator import Memcached, operator
from tests.testing.kubelets import CONTROLLERS, with_kubelet


async def create(cluster: Cluster) -> None:
    await cluster.client.create(
        {
            "apiVersion": "cache.example.com/v1alpha1",
            "kind": "Memcached",
            "metadata": {"name": "pool", "namespace": cluster.namespace},
            "spec": {"size": 2, "version": "1.6.9"},
        }
    )


async def resize(cluster: Cluster) -> None:
    grown = {"spec": {"size": 3}}
    await cluster.client.patch(
        Memcached, "pool", grown, type=PatchType.MERGE, namespace=cluster.namespace
    )


async def delete(cluster: Cluster) -> None:
    await cluster.client.delete(Memcached, "pool", namespace=cluster.namespace)


async def check_ready(cluster: Cluster, size: int) -> None:
    pool = await cluster.client.get(Memcached.resource, "pool", namespace=cluster.namespace)
    assert is_condition_true(pool, "Ready")
    assert len(pool["status"]["nodes"]) == pool["status"]["readyReplicas"] == size


async def has_two_nodes(cluster: Cluster) -> None:
    await check_ready(cluster, 2)


async def has_three_nodes(cluster: Cluster) -> None:
    await check_ready(cluster, 3)


async def has_nothing(cluster: Cluster) -> None:
    for kind in (Memcached.resource, builtin.DEPLOYMENT, builtin.POD):
        assert len(await cluster.client.list(kind, namespace=cluster.namespace)) == 0


def without_injected(obj: Object) -> None:
    """Take out what admission draws at random and where the scheduler puts a pod."""
    if obj["kind"] == "Pod":
        del obj["spec"]


def build_cluster() -> AbstractAsyncContextManager[Cluster]:
    """Use the server of KUBEWRIGHT_TEST_KUBECONFIG, or without it ours in memory."""
    path = os.environ.get("KUBEWRIGHT_TEST_KUBECONFIG")
    return with_kubelet(cluster_at(KubeConfig.load(path)) if path else embedded_cluster())


@pytest.mark.timeout(600)  # some seconds a point on a real server
@pytest.mark.parametrize(
    ("given", "act", "check"),
    [
        pytest.param(None, create, has_two_nodes, id="creation"),
        pytest.param(create, resize, has_three_nodes, id="change of size"),
        pytest.param(create, delete, has_nothing, id="deletion"),
    ],
)
async def test_it_ends_in_the_same_state_wherever_it_is_killed(
    given: Step | None, act: Step, check: Step
) -> None:
    report = await crash_points(
        operator,
        act,
        given=given,
        check=check,
        controllers=CONTROLLERS,
        kinds=(builtin.REPLICA_SET, builtin.POD),
        normalise=without_injected,
        clusters=build_cluster,
    )

    report.verify()
    assert len(report.points) >= 2 * len(report.calls)
