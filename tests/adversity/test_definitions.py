"""A definition is deleted and made again under a running operator: it goes on by itself."""

from __future__ import annotations

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.client.client import Client
from kubewright.testing import Faults
from tests.adversity.conftest import Pools, Running
from tests.runtime.conftest import FastClock, eventually
from tests.runtime.pools import Pool, build_operator

NAME = "pools.pools.example.com"


async def test_an_operator_outlives_its_definition(
    pools: Pools, admin: Client, running: Running, faults: Faults, clock: FastClock
) -> None:
    async def is_undefined() -> bool:
        try:
            await admin.get(builtin.CUSTOM_RESOURCE_DEFINITION, NAME)
        except NotFound:
            return True
        return False

    await pools.create("pool", size=2)
    async with running(build_operator()) as manager:
        await pools.settle("pool", 2)
        store = manager.cache.store(Pool.resource)
        await admin.delete(builtin.CUSTOM_RESOURCE_DEFINITION, NAME)
        await eventually(is_undefined)

        # Long enough for the watch to be refused, and for delays to have grown.
        faults.drop_watches()
        await clock.sleep(60)
        asked = faults.traffic.total
        await clock.sleep(60)
        assert faults.traffic.total - asked < 30, "a missing kind is asked for all the time"

        await build_operator().ensure_crds(admin)
        await pools.create("pool", size=1)
        await pools.create("another", size=3)
        await pools.settle("another", 3)
        # The former `pool` is told as deleted, at the latest by the first list of the new kind.
        found = await admin.list(Pool.resource, namespace=pools.namespace)
        uids = {obj["metadata"]["uid"] for obj in found}
        assert {entry.meta.uid for entry in store.list()} == uids
        assert len(uids) == 2


async def test_a_definition_that_comes_late_is_waited_for(
    pools: Pools, admin: Client, running: Running, faults: Faults
) -> None:
    """The operator starts first, as it may in any roll-out."""
    absent = faults.fail(target=NAME, code=404, times=None)
    await pools.create("pool", size=2)
    async with running(build_operator(), ready=False) as manager:
        await absent.wait_hit(2)
        assert not manager.is_ready
        absent.lift()
        await pools.settle("pool", 2)
