"""Lists and watches fail in every way an API server knows: nothing is missed, nothing stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from kubewright.api import builtin
from kubewright.api.errors import Forbidden
from kubewright.api.resource import NamespacedName
from kubewright.cache.reflector import Reflector
from kubewright.cache.store import Store
from kubewright.client.client import Client
from kubewright.client.transport import Transport
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch
from kubewright.testing import Call, Faults, FaultyTransport
from tests.adversity.conftest import Pools, Running
from tests.runtime.conftest import FastClock, eventually
from tests.runtime.pools import Pool, build_operator

Fault = Callable[[Faults], object]


def end_with_500(faults: Faults) -> None:
    faults.send_error(code=500)


def expire_on_opening(faults: Faults) -> None:
    expired: dict[str, str] = {}

    def is_expired(call: Call) -> bool:
        """Tell whether a watch begins at the version that its kind was at when this began."""
        version = call.query.get("resourceVersion", "")
        return bool(version) and expired.setdefault(call.resource, version) == version

    faults.expire_watches(times=None, where=is_expired)
    faults.drop_watches()


def expire_in_stream(faults: Faults) -> None:
    faults.send_error(code=410)


def be_away_for_three_minutes(faults: Faults) -> None:
    faults.unavailable("list", seconds=180)
    faults.unavailable("watch", seconds=180)
    faults.drop_watches()


def refuse_credentials_once(faults: Faults) -> None:
    faults.reject_credentials(where=lambda call: call.verb in ("list", "watch"))
    faults.reject_credentials(where=lambda call: call.is_write)
    faults.drop_watches()


@pytest.mark.parametrize(
    "fault",
    [
        end_with_500,
        expire_on_opening,
        expire_in_stream,
        be_away_for_three_minutes,
        refuse_credentials_once,
    ],
)
async def test_what_changes_while_watches_fail_is_done_afterwards(
    pools: Pools, running: Running, faults: Faults, fault: Fault
) -> None:
    await pools.create("pool", size=1)
    async with running(build_operator()):
        await pools.settle("pool", 1)
        fault(faults)
        await pools.set("pool", size=3)
        await pools.create("another", size=2)
        await pools.settle("pool", 3)
        await pools.settle("another", 2)
        # And the watches stand again: no relist is needed for what comes now.
        await pools.set("pool", size=0)
        await pools.settle("pool", 0)
    assert faults.log


async def test_a_list_whose_continue_token_expires_is_read_whole(
    admin: Client, upstream: Transport, namespace: str, faults: Faults, clock: FastClock
) -> None:
    for number in range(7):
        metadata = {"name": f"cm-{number}", "namespace": namespace}
        await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    # Every token, so that beginning again with pages would never come to an end.
    faults.expire_pages("configmaps", times=None)
    store = Store(builtin.CONFIG_MAP, scopes=[namespace], clock=clock)
    reflector = Reflector(
        Client(FaultyTransport(upstream, faults)),
        store,
        namespace=namespace,
        clock=clock,
        random=Random(0),
        page_size=3,
        watch_list=False,
    )
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(10):
        await store.wait_synced()
    task.cancel()
    await asyncio.wait((task,))
    names = {entry.key.name for entry in store.list()} - {"kube-root-ca.crt"}
    assert names == {f"cm-{number}" for number in range(7)}
    assert faults.log


async def test_a_right_that_is_missing_is_named_and_waited_for(
    pools: Pools,
    running: Running,
    faults: Faults,
    clock: FastClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await pools.create("pool", size=1)
    rule = faults.fail(
        target="configmaps",
        code=403,
        message="configmaps is forbidden: the operator cannot list it",
        times=None,
        where=lambda call: call.verb in ("list", "watch"),
    )
    async with running(build_operator(), ready=False) as manager:
        await rule.wait_hit()
        await clock.sleep(30)
        assert not manager.is_ready
        behind = [r for r in manager.cache.reflectors if isinstance(r.failure, Forbidden)]
        assert [str(reflector.store.resource) for reflector in behind] == ["configmaps"]
        assert "not ready: reflector of configmaps" in caplog.text
        assert "configmaps is forbidden" in caplog.text
        rule.lift()
        await pools.settle("pool", 1)


class Forgetful:
    """A controller with everything that remembers a key: an index, a timer, a failure."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.controller = Controller(
            "forgetful",
            Pool.resource,
            self._reconcile,
            watches=[Watch(builtin.CONFIG_MAP, lambda entry: ())],
            setup=lambda cache: cache.store(Pool.resource).add_index(
                "size", lambda entry: [str(entry.object()["spec"].get("size"))]
            ),
        )

    async def _reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        obj = ctx.get(Pool.resource)
        self.seen.append(f"{key.name} {'there' if obj else 'gone'}")
        if obj is None:
            return None
        if key.name == "failing":
            raise ConnectionError("its database is away")
        return Result(after=timedelta(hours=1))

    async def has_seen(self, *wanted: str) -> bool:
        return set(wanted) <= set(self.seen)


async def test_what_vanishes_in_a_gap_is_forgotten_everywhere(
    pools: Pools, running: Running, faults: Faults, namespace: str
) -> None:
    forgetful, operator = Forgetful(), build_operator()
    await pools.create("timed", size=7)
    await pools.create("failing", size=7)
    async with running(forgetful.controller, operator) as manager:
        await pools.settle("timed", 7)
        await pools.settle("failing", 7)
        await eventually(lambda: forgetful.has_seen("timed there", "failing there"))
        queue = forgetful.controller.queue
        gap = faults.fail("watch", "pools.pools.example.com", code=503, times=None)
        faults.drop_watches()
        await pools.delete("timed")
        await pools.delete("failing")
        faults.expire_watches("pools.pools.example.com")
        assert len(manager.cache.store(Pool.resource)) == 2
        gap.lift()
        await eventually(lambda: forgetful.has_seen("timed gone", "failing gone"))
        store = manager.cache.store(Pool.resource)
        assert (store.list(), store.by_index("size", "7")) == ([], [])
        assert queue.delayed == {}
        assert queue.failures(NamespacedName(namespace, "failing")) == 0


async def test_what_is_made_again_in_a_gap_is_not_taken_for_its_namesake(
    pools: Pools, running: Running, faults: Faults
) -> None:
    """What an operator remembers of the former one must not judge the new one."""
    operator = build_operator()
    judged: list[tuple[int, int | None]] = []

    @operator.validate(Pool)
    def never_shrink(pool: Pool, old: Pool | None) -> None:
        judged.append((pool.spec.size, old.spec.size if old else None))
        if old is not None and pool.spec.size < old.spec.size:
            raise ValueError("a pool never shrinks")

    await pools.create("pool", size=3)
    async with running(operator):
        await pools.settle("pool", 3)
        gap = faults.fail("watch", "pools.pools.example.com", code=503, times=None)
        faults.drop_watches()
        await pools.delete("pool")
        # Without children: no collector runs here to end those of the former one.
        await pools.create("pool", size=0)
        gap.lift()
        await pools.settle("pool", 0)
    assert (0, None) in judged
