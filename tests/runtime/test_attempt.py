"""An attempt tells of one reconcile: what woke it, what it waited for, how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import Random

from kubewright.api import builtin
from kubewright.api.errors import Conflict, TerminalError
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.runtime.attempt import Attempt, Outcome, Trigger, Triggers
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.runtime.result import Result
from kubewright.runtime.user_function import ReconcileTimeout
from tests.runtime.attempts import Attempts
from tests.runtime.conftest import FastClock
from tests.runtime.pools import build_operator, build_pool

KEY = NamespacedName("default", "a")


class Running:
    """Run a manager that keeps its attempts, for the time of a block."""

    def __init__(self, client: Client, namespace: str, add: Callable[[Manager], None]) -> None:
        self.attempts = Attempts()
        self.manager = Manager(
            client, namespaces=[namespace], observer=self.attempts, clock=FastClock(20)
        )
        add(self.manager)

    async def __aenter__(self) -> Attempts:
        self._task = asyncio.create_task(self.manager.run())
        await self.manager.wait_ready()
        return self.attempts

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))


def secret(namespace: str, name: str = "a") -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


async def test_tells_what_woke_it_and_how_it_ended(client: Client, namespace: str) -> None:
    answers: list[Result | Exception | None]
    answers = [Result(after=timedelta(seconds=1)), Conflict("raced"), None, TerminalError("no")]

    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        if key.name != "a" or not answers:
            return None
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    await client.create(secret(namespace))
    controller = Controller("c", builtin.SECRET, reconcile)
    async with Running(client, namespace, lambda manager: manager.add(controller)) as attempts:
        await attempts.collect("a", 3)
        controller.enqueue(NamespacedName(namespace, "a"))
        first, second, third, fourth = await attempts.collect("a", 4)
        await client.delete(builtin.SECRET, "a", namespace=namespace)
        fifth = (await attempts.collect("a", 5))[4]

    assert [trigger.cause for trigger in first.triggers] == ["start"]
    assert first.outcome is Outcome.REQUEUE_AFTER
    assert first.retry_after == 1
    assert second.triggers == (Trigger("timer"),)
    assert (second.outcome, second.failure, second.failures) == (Outcome.REQUEUE, "raced", 1)
    assert third.triggers == (Trigger("retry"),)
    assert (third.outcome, third.failure) == (Outcome.SUCCESS, "")
    assert fourth.triggers == (Trigger("asked"),)
    assert (fourth.outcome, fourth.failure) == (Outcome.TERMINAL, "no")
    assert str(fifth.triggers[0]).startswith(f"DELETED Secret {namespace}/a at version ")


async def test_notes_what_is_wanted_the_plan_and_the_versions_read(
    client: Client, namespace: str
) -> None:
    await build_operator().ensure_crds(client)
    pool = await client.create(build_pool(namespace, size=1))
    async with Running(client, namespace, lambda m: build_operator().add_to(m)) as attempts:
        first = (await attempts.collect("pool", 1))[0]

    child = f"ConfigMap {namespace}/pool-0"
    assert first.wanted == (child,)
    assert first.steps == (f"create {child}: it does not exist",)
    versions = dict(first.versions)
    assert versions[f"Pool {namespace}/pool"] == pool["metadata"]["resourceVersion"]
    assert versions["configmaps"]


async def test_waiting_for_own_writes_is_noted(client: Client, namespace: str) -> None:
    async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
        if key.name != "a" or ctx.get(builtin.SECRET, NamespacedName(namespace, "b")):
            return None
        await ctx.create(secret(namespace, "b"))
        return Result(after=timedelta(0))

    await client.create(secret(namespace))
    controller = Controller("c", builtin.SECRET, reconcile)
    async with Running(client, namespace, lambda manager: manager.add(controller)) as attempts:
        first, second = (await attempts.collect("a", 2))[:2]

    assert first.waited is None
    assert second.waited is not None
    assert second.settled


async def test_a_bug_and_a_time_limit_are_told_from_other_failures(
    client: Client, namespace: str
) -> None:
    errors = [TypeError("bug"), ReconcileTimeout("it hangs"), TimeoutError("no database")]

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        if key.name == "a" and errors:
            raise errors.pop(0)

    await client.create(secret(namespace))
    controller = Controller("c", builtin.SECRET, reconcile)
    async with Running(client, namespace, lambda manager: manager.add(controller)) as attempts:
        found = (await attempts.collect("a", 3))[:3]

    assert [attempt.is_bug for attempt in found] == [True, False, False]
    assert [attempt.timed_out for attempt in found] == [False, True, False]


def test_an_id_is_made_once_and_only_when_asked_for() -> None:
    ids, untouched = Random(1), Random(1)
    attempt = Attempt("c", builtin.SECRET, KEY, started=0.0, ids=ids)
    assert ids.getstate() == untouched.getstate()

    assert attempt.id == attempt.id
    assert attempt.id != Attempt("c", builtin.SECRET, KEY, started=0.0, ids=ids).id
    assert ids.getstate() != untouched.getstate()


def test_of_a_storm_of_triggers_the_first_and_the_last_are_kept() -> None:
    triggers = Triggers()
    for number in range(10_000):
        triggers.note(KEY, Trigger("MODIFIED", builtin.SECRET, KEY, str(number)))

    kept = triggers.take(KEY, has_failed=True)

    assert [trigger.version for trigger in kept] == ["0", "1", "2", "3", "4", "5", "6", "9999"]
    assert triggers.take(KEY, has_failed=True) == (Trigger("retry"),)
    assert triggers.take(KEY, has_failed=False) == (Trigger("again"),)
