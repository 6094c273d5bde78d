"""The machine's clock jumps by an hour: nothing waits for it, and nothing is lost by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.api.time import parse_time
from kubewright.client.client import Client
from kubewright.client.transport import Transport
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.leader_election import LeaderElection
from kubewright.runtime.manager import Manager
from kubewright.testing import Faults, FaultyTransport
from tests.adversity.conftest import SPEED
from tests.runtime.conftest import FastClock, eventually
from tests.runtime.pools import Pool, build_pool

JUMPS = [timedelta(hours=1), timedelta(hours=-1)]


class JumpingClock(FastClock):
    """A clock whose wall time somebody sets; its monotonic time goes on."""

    jump = timedelta()

    def now(self) -> datetime:
        return super().now() + self.jump


class Replica:
    """A manager with a Lease, whose reconcile fails, with an Event, until it is told to succeed."""

    def __init__(self, upstream: Transport, namespace: str, name: str) -> None:
        self.clock = JumpingClock(SPEED)
        self.faults = Faults(clock=self.clock)
        self.tries: list[float] = []
        self.manager = Manager(
            Client(FaultyTransport(upstream, self.faults), clock=self.clock),
            namespaces=[namespace],
            clock=self.clock,
            leader_election=LeaderElection("operator", namespace, identity=name),
        )
        self.manager.add(Controller("failing", Pool.resource, self._reconcile))

    async def _reconcile(self, key: NamespacedName, ctx: Context) -> None:
        self.tries.append(self.clock.monotonic())
        pool = ctx.get(Pool.resource)
        assert pool is not None
        ctx.recorder.event(pool, "Warning", "Failing", f"try {len(self.tries)}", action="Try")
        raise ConnectionError("the database is away")

    def has_tried(self, count: int) -> Callable[[], asyncio.Future[bool]]:
        async def check() -> bool:
            return len(self.tries) >= count

        return lambda: asyncio.ensure_future(check())


@pytest.mark.parametrize("jump", JUMPS, ids=["forward", "back"])
async def test_a_jump_moves_neither_lease_nor_delays_nor_events(
    upstream: Transport, admin: Client, namespace: str, jump: timedelta
) -> None:
    first = Replica(upstream, namespace, "first")
    second = Replica(upstream, namespace, "second")
    await admin.create(build_pool(namespace))
    tasks = [asyncio.create_task(first.manager.run())]
    try:
        await eventually(first.has_tried(5))
        tasks.append(asyncio.create_task(second.manager.run()))
        # Only one of the two machines jumps: what it writes is an hour off for the other.
        first.clock.jump = jump
        began, before = first.clock.monotonic(), len(first.tries)
        # Longer than the lease, and than the back-off of some tries more.
        await first.clock.sleep(40)
        passed = first.clock.monotonic() - began

        assert second.tries == []
        lease = await admin.get(builtin.LEASE, "operator", namespace=namespace)
        assert lease["spec"]["holderIdentity"] == "first"
        assert lease["spec"]["leaseTransitions"] == 0
        renewed = parse_time(lease["spec"]["renewTime"])
        assert abs(renewed - first.clock.now()) < timedelta(minutes=2)
        # Neither all at once nor never: the next delays double from 0.16 s on.
        assert 3 <= len(first.tries) - before <= 3 + passed / 0.16
        events = await admin.list(builtin.EVENT, namespace=namespace)
        assert any("try " in str(event.get("message") or event.get("note")) for event in events)
        # The back-off is as it was: no try came sooner than its own delay.
        waits = [after - early for early, after in zip(first.tries, first.tries[1:], strict=False)]
        assert all(wait >= 0.005 * 2**number for number, wait in enumerate(waits[:12]))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
