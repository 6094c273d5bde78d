"""The level-triggered oracle: kill an operator at every call, and compare where it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any, TypeAlias

import msgspec

from kubewright.api.resource import Object, Resource
from kubewright.runtime.manager import Manager
from kubewright.runtime.operator import Operator
from kubewright.testing.call import Call
from kubewright.testing.cluster import Cluster, embedded_cluster
from kubewright.testing.end_state import EndState, build_end_state, read_objects
from kubewright.testing.faults import Faults
from kubewright.testing.polling import eventually
from kubewright.testing.rule import Rule

Step: TypeAlias = Callable[[Cluster], Awaitable[object]]
"""What a user does, or a check of the outcome."""

Clusters: TypeAlias = Callable[[], AbstractAsyncContextManager[Cluster]]
"""Makes a fresh cluster for each run."""

_PAUSE_SECONDS = 0.01
_NO_GRACE = timedelta(0)


class CrashPoint(msgspec.Struct, frozen=True):
    """One run: the operator was killed at its n-th call, and a new one went on.

    Attributes:
        number: which call it was, counted from 1.
        after_commit: whether the server had carried it out.
        call: the fatal request; None where the run ended before its n-th call.
        differences: from the end state of the undisturbed run, in sentences.
        orphans: objects that nobody owns any more.
    """

    number: int
    after_commit: bool
    call: Call | None
    differences: tuple[str, ...]
    orphans: tuple[str, ...]

    @property
    def has_converged(self) -> bool:
        """Whether the run ended where the undisturbed one did, and left nothing behind."""
        return not self.differences and not self.orphans

    def __str__(self) -> str:
        when = "after" if self.after_commit else "before"
        lines = [f"killed at call {self.number}, {when} commit: {self.call or 'not reached'}"]
        lines += [f"    {difference}" for difference in self.differences]
        lines += [f"    orphan: {orphan}" for orphan in self.orphans]
        return "\n".join(lines)


class CrashReport(msgspec.Struct, frozen=True):
    """All runs, and the undisturbed one that they are compared with.

    Attributes:
        calls: what the undisturbed operator asked the API server.
        end_state: what its run led to.
        points: the killed runs, two for each call.
    """

    calls: tuple[Call, ...]
    end_state: EndState
    points: tuple[CrashPoint, ...]

    @property
    def failures(self) -> list[CrashPoint]:
        """The runs that ended elsewhere."""
        return [point for point in self.points if not point.has_converged]

    def verify(self) -> None:
        """Fail where a run ended elsewhere.

        Raises:
            AssertionError: the message tells for each such run what is different.
        """
        __tracebackhide__ = True
        if self.end_state.orphans:
            orphans = ", ".join(self.end_state.orphans)
            raise AssertionError(f"the undisturbed run leaves orphans: {orphans}")
        if self.failures:
            told = "\n".join(map(str, self.failures))
            raise AssertionError(
                f"{len(self.failures)} of {len(self.points)} runs end elsewhere:\n{told}"
            )


async def crash_points(
    operator: Operator,
    act: Step,
    *,
    given: Step | None = None,
    check: Step | None = None,
    controllers: Sequence[str] = (),
    kinds: Sequence[Resource] = (),
    normalise: Callable[[Object], object] | None = None,
    clusters: Clusters = embedded_cluster,
    quiet: float = 0.3,
    patience: float = 10.0,
) -> CrashReport:
    """Kill an operator at every call to the API server, and compare the end states.

    One undisturbed run counts the operator's calls, from its start on. Then, for each call, two
    runs begin in the same initial state: the operator is killed as the request leaves, or when the
    server has carried it out and the answer is on its way. Nothing that it sent later arrives, and
    it is not told to stop. A new one starts, which knows nothing. The run ends when its state is
    that of the undisturbed run and stays so, or after `patience`.

    States are the objects of the operator's kinds, of the kinds that it owns and of `kinds`, with
    all of their fields but uids, resource versions, times and generated names.

    Arguments:
        operator: a fresh process is made of it for each life; the functions are the same.
        act: what the user does while the operator runs. It is done once in each run, also where
            the operator dies before.
        given: what the user did before, and a finished operator has reconciled: the initial state.
        check: asserts what the undisturbed run must lead to, so that comparing means something; it
            is repeated until it holds.
        controllers: of Kubernetes, that run in all runs without dying.
        kinds: further kinds to compare.
        normalise: takes out of an object, a copy, what else differs between runs.
        clusters: makes the cluster of each run.
        quiet: seconds without a request and a change after which the undisturbed run is over.
        patience: seconds that a run may take to converge.
    """
    oracle = _Oracle(
        operator, act, given, check, controllers, kinds, normalise, clusters, quiet, patience
    )
    calls = await oracle.run_undisturbed()
    points: list[CrashPoint] = []
    # A killed run may make more calls than the undisturbed one did; one that never stops asking
    # must not keep the oracle for ever.
    number, reached = 0, True
    while number < len(calls) or (reached and number < 2 * len(calls)):
        number += 1
        made = [await oracle.run_killed(number, after_commit=after) for after in (False, True)]
        reached = any(point.call is not None for point in made)
        points += made
    return CrashReport(tuple(calls), oracle.end, tuple(points))


class _Oracle(msgspec.Struct):
    operator: Operator
    act: Step
    given: Step | None
    check: Step | None
    controllers: Sequence[str]
    kinds: Sequence[Resource]
    normalise: Callable[[Object], object] | None
    clusters: Clusters
    quiet: float
    patience: float
    end: EndState = EndState({}, ())
    initial: EndState | None = None

    @property
    def _resources(self) -> list[Resource]:
        owned = [child.resource for kind in self.operator.kinds for child in kind.owns.values()]
        managed = [kind.resource for kind in self.operator.kinds]
        return list(dict.fromkeys([*managed, *owned, *self.kinds]))

    async def run_undisturbed(self) -> list[Call]:
        """Learn the end state, and which calls lead to it."""
        async with self._stage() as cluster:
            faults = Faults()
            async with self._life(cluster, faults) as manager:
                await manager.wait_ready()
                await self.act(cluster)
                await self._wait_checked(cluster)
                await self._wait_quiet(cluster, faults)
                self.end = await self._read(cluster)
        return faults.traffic.calls

    async def run_killed(self, number: int, *, after_commit: bool) -> CrashPoint:
        """Kill the operator at a call, start it again and see where that ends."""
        async with self._stage() as cluster:
            faults = Faults()
            rule = faults.kill(nth=number, after_commit=after_commit)
            async with self._life(cluster, faults) as manager:
                await _first(manager.wait_ready(), rule.wait_hit())
                await self.act(cluster)
                await _first(self._wait_quiet(cluster, faults), rule.wait_hit())
            faults = Faults()
            async with self._life(cluster, faults):
                found = await self._wait_for(self.end, cluster, faults)
        return _build_point(number, after_commit, rule, self.end, found)

    @asynccontextmanager
    async def _stage(self) -> AsyncIterator[Cluster]:
        """Make a cluster and bring it into the initial state."""
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(self.clusters())
            await cluster.install(self.operator)
            if self.controllers:
                await stack.enter_async_context(cluster.run_controllers(*self.controllers))
            if self.given is not None:
                await self.given(cluster)
                faults = Faults()
                async with self._life(cluster, faults) as manager:
                    await manager.wait_ready()
                    if self.initial is None:
                        await self._wait_quiet(cluster, faults)
                        self.initial = await self._read(cluster)
                    found = await self._wait_for(self.initial, cluster, faults)
                different = self.initial.differences(found)
                assert not different, f"the initial state is not repeatable: {different}"
            yield cluster

    @asynccontextmanager
    async def _life(self, cluster: Cluster, faults: Faults) -> AsyncIterator[Manager]:
        """Run the operator while the block lasts, then kill it: no grace, no drain."""
        manager = Manager(
            cluster.connect(faults),
            namespaces=cluster.namespaces,
            random=Random(0),
            grace_period=_NO_GRACE,
        )
        self.operator.add_to(manager)
        task = asyncio.create_task(manager.run())
        try:
            yield manager
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled():
            await task

    async def _wait_checked(self, cluster: Cluster) -> None:
        check = self.check
        if check is None:
            return
        await eventually(
            lambda: read_objects(cluster.client, self._resources, cluster.namespace),
            lambda _: check(cluster),
            within=self.patience,
        )

    async def _wait_for(self, wanted: EndState, cluster: Cluster, faults: Faults) -> EndState:
        """Wait until the state is the wanted one and all is quiet; return what it is at the end."""
        deadline = asyncio.get_running_loop().time() + self.patience
        while True:
            found = await self._read(cluster)
            if not wanted.differences(found) and not faults.traffic.in_flight:
                before = faults.traffic.total
                await asyncio.sleep(5 * _PAUSE_SECONDS)
                found = await self._read(cluster)
                if faults.traffic.total == before and not wanted.differences(found):
                    return found
            if asyncio.get_running_loop().time() >= deadline:
                return found
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _wait_quiet(self, cluster: Cluster, faults: Faults) -> None:
        """Wait until neither the operator asks for anything nor the state changes."""
        loop = asyncio.get_running_loop()
        since, seen = loop.time(), await self._observe(cluster, faults)
        while loop.time() - since < self.quiet or faults.traffic.in_flight:
            await asyncio.sleep(_PAUSE_SECONDS)
            now = await self._observe(cluster, faults)
            if now != seen:
                since, seen = loop.time(), now

    async def _observe(self, cluster: Cluster, faults: Faults) -> tuple[int, list[Object]]:
        objects = await read_objects(cluster.client, self._resources, cluster.namespace)
        return faults.traffic.total, objects

    async def _read(self, cluster: Cluster) -> EndState:
        objects = await read_objects(cluster.client, self._resources, cluster.namespace)
        if self.normalise is not None:
            for obj in objects:
                self.normalise(obj)
        return build_end_state(objects, namespace=cluster.namespace, operator=self.operator.name)


def _build_point(
    number: int, after_commit: bool, rule: Rule, wanted: EndState, found: EndState
) -> CrashPoint:
    return CrashPoint(
        number=number,
        after_commit=after_commit,
        call=rule.hits[0] if rule.hits else None,
        differences=tuple(wanted.differences(found)),
        orphans=found.orphans,
    )


async def _first(*waiting: Coroutine[Any, Any, object]) -> None:
    """Wait for one of several to end, and give the others up."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        await task
