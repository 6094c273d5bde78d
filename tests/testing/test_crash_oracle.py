"""The oracle finds operators that depend on having lived, and no others."""

from __future__ import annotations

import pytest

import kubewright as kw
from kubewright.api import builtin
from kubewright.client.requests import PatchType
from kubewright.runtime.child_kind import MANAGED_BY
from kubewright.testing import Cluster, CrashReport, crash_points
from tests.runtime.pools import Pool, build_operator, build_pool


async def create(cluster: Cluster) -> None:
    await cluster.client.create(build_pool(cluster.namespace, size=2))


async def grow(cluster: Cluster) -> None:
    await cluster.client.patch(
        Pool, "pool", {"spec": {"size": 3}}, type=PatchType.MERGE, namespace=cluster.namespace
    )


async def has_two(cluster: Cluster) -> None:
    names = [obj["metadata"]["name"] for obj in await config_maps(cluster)]
    assert names == ["pool-0", "pool-1"]


async def config_maps(cluster: Cluster) -> list[kw.Object]:
    found = await cluster.client.list(builtin.CONFIG_MAP, namespace=cluster.namespace)
    return [obj for obj in found if obj["metadata"]["name"] != "kube-root-ca.crt"]


async def look(operator: kw.Operator) -> CrashReport:
    return await crash_points(operator, create, patience=0.5, quiet=0.1)


def key_of(pool: Pool) -> kw.NamespacedName:
    return kw.NamespacedName(pool.metadata.namespace or "", pool.metadata.name)


def build_child(pool: Pool, **metadata: object) -> kw.Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": pool.metadata.namespace, **metadata},
    }


async def test_a_level_triggered_operator_passes_at_every_point() -> None:
    report = await crash_points(build_operator(), create, check=has_two, quiet=0.1)

    report.verify()
    reached = [point for point in report.points if point.call is not None]
    assert len(reached) >= 2 * len(report.calls)
    assert {point.after_commit for point in reached} == {False, True}


async def test_the_initial_state_is_that_of_a_finished_operator() -> None:
    report = await crash_points(build_operator(), grow, given=create, quiet=0.1)

    report.verify()
    created = [call for call in report.calls if call.resource == "configmaps" and call.is_write]
    assert [call.name for call in created] == ["pool-2"]


async def test_an_operator_that_notes_the_work_before_it_is_done_is_found() -> None:
    operator = kw.Operator("hasty-operator")

    @operator.reconcile(Pool, owns=[builtin.CONFIG_MAP])
    async def reconcile(pool: Pool, context: kw.Context) -> None:
        if "done" in (pool.metadata.annotations or {}):
            return
        note = {"metadata": {"annotations": {"done": "true"}}}
        await context.patch(Pool.resource, key_of(pool), note, type=PatchType.MERGE)
        await context.create(build_child(pool, name="child"))

    report = await look(operator)

    with pytest.raises(AssertionError, match="ConfigMap child: is missing") as failed:
        report.verify()
    assert "killed at call" in str(failed.value)
    assert {point.after_commit for point in report.failures} == {False, True}


async def test_an_operator_that_forgets_what_it_made_is_found() -> None:
    operator = kw.Operator("forgetful-operator")

    @operator.reconcile(Pool, owns=[builtin.CONFIG_MAP])
    async def reconcile(pool: Pool, context: kw.Context) -> None:
        if "child" in (pool.metadata.annotations or {}):
            return
        labels = {MANAGED_BY: operator.name}
        made = await context.create(build_child(pool, generateName="child-", labels=labels))
        note = {"metadata": {"annotations": {"child": made["metadata"]["name"]}}}
        await context.patch(Pool.resource, key_of(pool), note, type=PatchType.MERGE)

    report = await look(operator)

    assert report.end_state.orphans, "the child has no owner"
    with pytest.raises(AssertionError, match="the undisturbed run leaves orphans"):
        report.verify()
    doubled = [point for point in report.failures if "should not exist" in str(point)]
    assert [point.call.verb for point in doubled if point.call] == ["create", "patch"]


async def test_a_check_that_never_holds_shows_the_objects() -> None:
    async def has_three(cluster: Cluster) -> None:
        assert len(await config_maps(cluster)) == 3

    with pytest.raises(AssertionError, match=r"last seen:[\s\S]*kind: ConfigMap"):
        await crash_points(build_operator(), create, check=has_three, patience=0.3)
