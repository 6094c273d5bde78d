"""Many objects, many events, many failures at once: bounded work, and nobody is starved."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.retry_budget import RETRY_BURST, RETRY_RATE
from kubewright.testing import Faults
from tests.adversity.conftest import Running
from tests.runtime.conftest import FastClock, eventually
from tests.runtime.pools import Pool, build_operator, build_pool

MANY = 1000
WORKERS = 2


async def create_many(admin: Client, namespace: str, names: list[str], **spec: object) -> None:
    """Create pools, some at a time: what counts is that the operator finds them all at once."""
    for start in range(0, len(names), 50):
        async with asyncio.TaskGroup() as group:
            for name in names[start : start + 50]:
                group.create_task(admin.create(build_pool(namespace, name, **spec)))


async def test_a_thousand_objects_at_once_keep_requests_bounded_and_a_user_served(
    admin: Client, namespace: str, running: Running, faults: Faults
) -> None:
    """The thousand are found at start-up; meanwhile a user makes one more."""
    await create_many(admin, namespace, [f"pool-{number}" for number in range(MANY)])
    order: list[str] = []
    at_work = most_at_work = 0

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        nonlocal at_work, most_at_work
        at_work += 1
        most_at_work = max(most_at_work, at_work)
        order.append(key.name)
        await ctx.patch(Pool.resource, key, {"metadata": {"labels": {"seen": "yes"}}})
        at_work -= 1

    async def has_begun() -> bool:
        return len(order) >= 20

    async def is_done() -> bool:
        return len(set(order)) == MANY + 1

    controller = Controller("c", Pool.resource, reconcile, workers=WORKERS)
    async with running(controller):
        await eventually(has_begun)
        faults.traffic.reset()
        await admin.create(build_pool(namespace, "user"))
        begun = len(order)
        await eventually(is_done, seconds=60)
    waited = order.index("user") - begun
    # It may lie behind what the thousand's own writes woke, never behind the thousand.
    assert waited < MANY / 4
    assert most_at_work <= WORKERS
    assert faults.traffic.max_in_flight <= WORKERS + 1


async def test_a_big_namespace_leaves_a_small_one_its_turns(
    admin: Client, namespace: str, running: Running
) -> None:
    order: list[NamespacedName] = []

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        order.append(key)
        await asyncio.sleep(0)

    async def is_done() -> bool:
        return len(order) >= 10_000 + 3

    controller = Controller("c", Pool.resource, reconcile, workers=WORKERS)
    async with running(controller):
        for number in range(10_000):
            controller.enqueue(NamespacedName("big", f"pool-{number}"))
        for number in range(3):
            controller.enqueue(NamespacedName("small", f"pool-{number}"))
        await eventually(is_done, seconds=30)
    places = [place for place, key in enumerate(order) if key.namespace == "small"]
    assert places[-1] < 3 * 2 + WORKERS


async def test_a_storm_of_events_for_an_object_in_work_is_one_more_reconcile(
    admin: Client, namespace: str, running: Running
) -> None:
    await admin.create(build_pool(namespace, "stormy"))
    count: Counter[str] = Counter()
    begun, storm_is_over = asyncio.Event(), asyncio.Event()

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        count[key.name] += 1
        begun.set()
        await storm_is_over.wait()

    async def is_through() -> bool:
        return count["calm"] == 1 and count["stormy"] >= 2

    controller = Controller("c", Pool.resource, reconcile, workers=WORKERS)
    async with running(controller) as manager:
        await begun.wait()
        store = manager.cache.store(Pool.resource)
        entry = store.get(NamespacedName(namespace, "stormy"))
        assert entry is not None
        for _ in range(10_000):
            controller.enqueue(entry.key)
        await admin.create(build_pool(namespace, "calm"))
        storm_is_over.set()
        await eventually(is_through)
        await asyncio.sleep(0.1)
    assert count == {"stormy": 2, "calm": 1}


@pytest.mark.parametrize("speed", [4])
async def test_a_thousand_failures_do_not_become_a_storm_of_retries(
    admin: Client, namespace: str, running: Running, faults: Faults, clock: FastClock
) -> None:
    """While children cannot be written, retries stay few; then all come to their end soon."""
    names = [f"pool-{number}" for number in range(200)]
    await create_many(admin, namespace, names, size=1)
    refusing = faults.fail("PATCH", "configmaps", code=500, times=None)

    async def is_refused() -> bool:
        return len({call.name for call in refusing.hits}) == len(names)

    async def are_made() -> bool:
        written = [call for call in faults.traffic.writes if call.resource == "configmaps"]
        return {call.name for call in written if call.status in (200, 201)} == {
            f"{name}-0" for name in names
        }

    since = clock.monotonic()
    async with running(build_operator()) as manager:
        await eventually(is_refused, seconds=30)
        await manager.clock.sleep(12)
        # One try each, a burst of retries, and as many a second as the budget says. A few more
        # begin where the news of a status comes while its object is still in work.
        elapsed = manager.clock.monotonic() - since
        allowed = len(names) + RETRY_BURST + RETRY_RATE * elapsed
        assert len(refusing.hits) <= allowed + len(names) / 4
        refusing.lift()
        await eventually(are_made, seconds=30)
