"""The Job controllers, killed at each of their writes: every pod is made once and counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.jobs import Jobs
from tests.local.controllers.pod_ender import Outcome, PodEnder, runs, succeeds

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.transport import Transport
from kubewright.testing import Faults
from kubewright.testing.call import Call
from kubewright.testing.faulty_transport import FaultyTransport

INDEX = "batch.kubernetes.io/job-completion-index"

Act = Callable[[Jobs, str, PodEnder], Awaitable[object]]


class Scenario(msgspec.Struct, frozen=True):
    """A Job that is created and ends the same wherever its controller dies.

    Attributes:
        spec: of the Job.
        outcome: how its pods end.
        pods: how many there are ever.
        end: the counters and the last condition of its status.
        act: what happens when its pods run.
    """

    spec: Object
    outcome: Outcome
    pods: int
    end: Object
    act: Act | None = None


def fails_at_one(pod: Object) -> int | None:
    return int(pod["metadata"]["labels"][INDEX] == "1")


def leads(pod: Object) -> int | None:
    return 0 if pod["metadata"]["labels"][INDEX] == "0" else None


async def let_lead(jobs: Jobs, name: str, ender: PodEnder) -> None:
    ender.outcome = leads
    ender.look()


async def fail_one(jobs: Jobs, name: str, ender: PodEnder) -> None:
    ender.outcome = lambda pod: 1 if pod["metadata"]["labels"][INDEX] == "1" else None
    ender.look()


async def suspend(jobs: Jobs, name: str, ender: PodEnder) -> None:
    await jobs.patch({"suspend": True}, name)


SCENARIOS = {
    "completions": Scenario(
        {"completions": 3, "parallelism": 2}, succeeds, 3, {"succeeded": 3, "last": "Complete"}
    ),
    "indexes": Scenario(
        {"indexed": True, "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0},
        fails_at_one,
        3,
        {"succeeded": 2, "failed": 1, "failedIndexes": "1", "last": "Failed"},
    ),
    "failure": Scenario(
        {"completions": 2, "parallelism": 1, "backoffLimit": 0},
        lambda _: 1,
        1,
        {"failed": 1, "last": "Failed"},
    ),
    "success policy": Scenario(
        {
            "indexed": True,
            "completions": 2,
            "parallelism": 2,
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        },
        runs,
        2,
        {"succeeded": 1, "last": "Complete"},
        let_lead,
    ),
    "failed index": Scenario(
        {
            "indexed": True,
            "completions": 2,
            "parallelism": 2,
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": 0,
        },
        runs,
        2,
        {"failed": 2, "failedIndexes": "1", "last": "Failed"},
        fail_one,
    ),
    "suspension": Scenario(
        {"completions": 2, "parallelism": 2}, runs, 2, {"last": "Suspended"}, suspend
    ),
}


def is_no_event(call: Call) -> bool:
    return call.resource != "events"


COUNTERS = ("active", "succeeded", "failed", "failedIndexes", "uncountedTerminatedPods")


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("after_commit", [False, True], ids=["lost", "carried out"])
async def test_it_ends_the_same_wherever_it_is_killed(
    name: str,
    after_commit: bool,
    client: Client,
    transport: Transport,
    running: Running,
    ender: PodEnder,
    jobs: Jobs,
    eventually: Eventually,
) -> None:
    scenario = SCENARIOS[name]

    async def play(job: str) -> None:
        ender.outcome = scenario.outcome
        await jobs.create(job, **scenario.spec)
        if scenario.act is not None:
            await jobs.wait_count("ready", scenario.pods, job)
            await scenario.act(jobs, job, ender)

        async def has_ended() -> bool:
            return describe_end((await jobs.get(job))["status"]) == scenario.end

        await eventually(has_ended)

    number, rule = 0, None
    while rule is None or rule.hits:
        number += 1
        job, faults = f"work{number}", Faults()
        rule = faults.kill("write", nth=number, after_commit=after_commit, where=is_no_event)
        async with running("job", through=FaultyTransport(transport, faults), dies=True):
            playing = asyncio.create_task(play(job))
            hit = asyncio.create_task(rule.wait_hit())
            await asyncio.wait((hit, playing), return_when=asyncio.FIRST_COMPLETED)
            hit.cancel()
        async with running("job"):
            await playing
        assert len(ender.of_job(job)) == scenario.pods, str(rule.hits)
        left = await client.list(builtin.POD, namespace=jobs.namespace)
        assert not any(pod["metadata"].get("finalizers") for pod in left), str(rule.hits)
    assert number > 4


def describe_end(status: Object) -> Object:
    conditions = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
    counters = {key: status[key] for key in COUNTERS if status.get(key)}
    return {**counters, "last": conditions[-1] if conditions else None}
