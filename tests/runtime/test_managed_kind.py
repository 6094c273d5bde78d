"""What an operator's author may declare."""

from __future__ import annotations

import pytest

from kubewright.api import builtin
from kubewright.api.custom_resource import CustomResource
from kubewright.api.errors import ConfigurationError, Timeout
from kubewright.client.client import Client
from kubewright.runtime.child_kind import ChildKind
from kubewright.runtime.operator import Operator
from kubewright.runtime.watch import Watch, map_to_label
from tests.runtime.conftest import FastClock
from tests.runtime.pools import Pool, PoolSpec, PoolStatus, build_operator


class Rival(
    CustomResource[PoolSpec, PoolStatus],
    group="pools.example.com",
    version="v1",
    kind="Pool",
    plural="ponds",
):
    """Another kind of the same name, which the API server refuses to serve."""


def test_a_role_has_one_function() -> None:
    operator = build_operator()
    with pytest.raises(ConfigurationError, match=r"two @operator\.desired functions"):
        operator.desired(Pool, owns=[])(lambda pool: [])


@pytest.mark.parametrize("name", ["", "A B", "db_operator", "-x", "x" * 64])
def test_a_name_that_no_label_or_lease_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="such as 'memcached-operator'"):
        Operator(name)


def test_a_timeout_without_a_unit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give a timedelta"):
        Operator("o", reconcile_timeout=5)  # type: ignore[arg-type]  # the fault


def test_a_watch_that_names_no_objects_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"@operator\.reconcile: .* write Watch"):
        Operator("o").reconcile(Pool, watches=[builtin.POD])  # type: ignore[list-item]  # the fault


@pytest.mark.parametrize("decision", ["on_immutable", "on_removal"])
def test_a_decision_that_is_none_is_refused(decision: str) -> None:
    faulty = {decision: "x"}
    with pytest.raises(ConfigurationError, match=f"{decision}='x': write"):
        ChildKind(builtin.JOB, **faulty)  # type: ignore[arg-type]  # the fault


def test_kinds_of_all_roles_come_together() -> None:
    operator = Operator("o")
    pods = Watch(builtin.POD, map_to_label("app"))
    operator.desired(Pool, owns=[builtin.SERVICE])(lambda pool: [])
    operator.status(Pool, reads=[builtin.NODE], watches=[pods])(lambda pool, children: {})
    (managed,) = operator.kinds
    managed.own([ChildKind(builtin.SERVICE, on_immutable="recreate")])
    assert managed.owns == {
        builtin.SERVICE.gvk: ChildKind(builtin.SERVICE, on_immutable="recreate")
    }
    assert (managed.reads, managed.watches) == ([builtin.NODE], [pods])
    (controller,) = operator.controllers()
    assert (controller.name, controller.kind) == ("o", Pool.resource)


async def test_a_crd_whose_names_are_taken_is_named(client: Client) -> None:
    await build_operator().ensure_crds(client)
    rival = Operator("rival")
    rival.desired(Rival, owns=[])(lambda pool: [])
    with pytest.raises(Timeout, match=r"the CRD ponds.pools.example.com is not served: .*Pool"):
        await rival.ensure_crds(client, clock=FastClock(100))


async def test_crds_that_are_there_are_no_work(client: Client) -> None:
    operator = build_operator()
    await operator.ensure_crds(client)
    before = await client.get(builtin.CUSTOM_RESOURCE_DEFINITION, "pools.pools.example.com")
    await operator.ensure_crds(client)
    after = await client.get(builtin.CUSTOM_RESOURCE_DEFINITION, "pools.pools.example.com")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
