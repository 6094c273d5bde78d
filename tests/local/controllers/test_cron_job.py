"""The CronJob controller on an API server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.local.controllers.batch_objects import build_cron_job, build_job
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.jobs import Jobs
from tests.local.controllers.pod_ender import PodEnder, runs

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import Transport
from kubewright.testing import Faults
from kubewright.testing.call import Call
from kubewright.testing.faulty_transport import FaultyTransport

CONTROLLERS = ("job", "cronjob")
YEARLY = "0 0 1 1 *"


class CronJobs:
    """One CronJob of the test's namespace, which is due when a test says so."""

    def __init__(self, client: Client, namespace: str, eventually: Eventually) -> None:
        self.client = client
        self.namespace = namespace
        self._eventually = eventually

    async def create(self, name: str = "tick", **spec: Any) -> Object:
        cron_job = build_cron_job(name, **{"schedule": YEARLY, **spec})
        cron_job["metadata"] = {"name": name, "namespace": self.namespace}
        return await self.client.create(cron_job)

    async def get(self, name: str = "tick") -> Object:
        return await self.client.get(builtin.CRON_JOB, name, namespace=self.namespace)

    async def patch(
        self, patch: Object, name: str = "tick", subresource: str | None = None
    ) -> None:
        await self.client.patch(
            builtin.CRON_JOB,
            name,
            patch,
            type=PatchType.MERGE,
            namespace=self.namespace,
            subresource=subresource,
        )

    async def make_due(self, name: str = "tick") -> None:
        """Make the start of this year a missed time."""
        moment = format_time(datetime.now(UTC) - timedelta(days=500))
        await self.patch({"status": {"lastScheduleTime": moment}}, name, "status")

    async def wait_active(self, count: int, name: str = "tick") -> Object:
        async def holds() -> bool:
            return len((await self.get(name))["status"].get("active") or ()) == count

        await self._eventually(holds)
        return await self.get(name)

    async def jobs(self, name: str = "tick") -> list[str]:
        jobs = await self.client.list(builtin.JOB, namespace=self.namespace)
        names = [str(job["metadata"]["name"]) for job in jobs]
        return [job for job in names if job.startswith(f"{name}-")]


@pytest.fixture
def cron_jobs(client: Client, namespace: str, eventually: Eventually) -> CronJobs:
    return CronJobs(client, namespace, eventually)


async def test_a_missed_time_is_made_up_for_once(
    running: Running, ender: PodEnder, jobs: Jobs, cron_jobs: CronJobs
) -> None:
    ender.outcome = runs
    async with running(*CONTROLLERS):
        await cron_jobs.create()
        await cron_jobs.make_due()
        cron_job = await cron_jobs.wait_active(1)
        (name,) = await cron_jobs.jobs()
        year = datetime.now(UTC).year
        due = datetime(year, 1, 1, tzinfo=UTC)
        assert cron_job["status"]["lastScheduleTime"] == format_time(due)
        assert name == f"tick-{int(due.timestamp()) // 60}"
        reference = cron_job["status"]["active"][0]
        assert reference["uid"] == (await jobs.get(name))["metadata"]["uid"]
        ender.outcome = lambda _: 0
        ender.look()
        await cron_jobs.wait_active(0)
        await jobs.wait_event("Normal", "SuccessfulCreate", f"Created job {name}")
        seen = f"Saw completed job: {name}, condition: Complete"
        await jobs.wait_event("Normal", "SawCompletedJob", seen)
    job = await jobs.get(name)
    status = (await cron_jobs.get())["status"]
    assert status["lastSuccessfulTime"] == job["status"]["completionTime"]
    assert await cron_jobs.jobs() == [name]


async def run_over(cron_jobs: CronJobs, policy: str) -> str:
    """Start a Job that runs on, then let another time be due; return the first one's name."""
    await cron_jobs.create(concurrencyPolicy=policy)
    await cron_jobs.make_due()
    await cron_jobs.wait_active(1)
    (first,) = await cron_jobs.jobs()
    await cron_jobs.patch({"spec": {"schedule": "0 0 2 1 *"}})
    await cron_jobs.patch({"metadata": {"annotations": {"look": "again"}}})
    return first


async def test_allow_starts_a_job_beside_one_that_runs(
    running: Running, ender: PodEnder, cron_jobs: CronJobs
) -> None:
    ender.outcome = runs
    async with running(*CONTROLLERS):
        await run_over(cron_jobs, "Allow")
        await cron_jobs.wait_active(2)


async def test_forbid_leaves_a_time_out(
    running: Running, ender: PodEnder, jobs: Jobs, cron_jobs: CronJobs
) -> None:
    ender.outcome = runs
    async with running(*CONTROLLERS):
        first = await run_over(cron_jobs, "Forbid")
        about = "prior execution is running and concurrency policy is Forbid"
        await jobs.wait_event("Normal", "JobAlreadyActive", f"Not starting job because {about}")
    assert await cron_jobs.jobs() == [first]


async def test_replace_deletes_the_job_that_runs(
    running: Running,
    ender: PodEnder,
    jobs: Jobs,
    cron_jobs: CronJobs,
    eventually: Eventually,
) -> None:
    ender.outcome = runs
    async with running(*CONTROLLERS, "garbage-collector"):
        first = await run_over(cron_jobs, "Replace")

        async def is_replaced() -> bool:
            names = await cron_jobs.jobs()
            return len(names) == 1 and first not in names

        await eventually(is_replaced)
        await jobs.wait_event("Normal", "SuccessfulDelete", f"Deleted job {first}")
        cron_job = await cron_jobs.wait_active(1)
        assert [ref["name"] for ref in cron_job["status"]["active"]] == await cron_jobs.jobs()


async def test_a_changed_schedule_starts_nothing_before_its_next_time(
    running: Running, ender: PodEnder, cron_jobs: CronJobs, eventually: Eventually
) -> None:
    async def wait_for_look(name: str) -> None:
        """Wait until the controller has dealt with what came before a CronJob of its own."""

        async def has_job() -> bool:
            return bool(await cron_jobs.jobs(name))

        await cron_jobs.create(name)
        await cron_jobs.make_due(name)
        await eventually(has_job)

    async with running(*CONTROLLERS):
        await cron_jobs.create()
        now = datetime.now(UTC)
        last = format_time(now - timedelta(minutes=10))
        await cron_jobs.patch({"status": {"lastScheduleTime": last}}, subresource="status")
        await wait_for_look("one")
        # By the new schedule a time has passed since then, and the next one is most of an hour off.
        minute = (now - timedelta(minutes=3)).minute
        await cron_jobs.patch({"spec": {"schedule": f"{minute} * * * *"}})
        await wait_for_look("two")
        assert await cron_jobs.jobs() == []
        await cron_jobs.patch({"metadata": {"annotations": {"look": "again"}}})
        await wait_for_look("three")
        assert len(await cron_jobs.jobs()) == 1


async def test_a_job_that_somebody_else_made_is_reported_and_not_active(
    client: Client, running: Running, ender: PodEnder, jobs: Jobs, cron_jobs: CronJobs
) -> None:
    ender.outcome = runs
    async with running(*CONTROLLERS):
        cron_job = await cron_jobs.create()
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "controller": True}
        manual = build_job("now")
        manual["metadata"] = {
            "name": "now",
            "namespace": cron_jobs.namespace,
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{**owner, "uid": cron_job["metadata"]["uid"]}],
        }
        await client.create(manual)
        note = "Saw a job that the controller did not create or forgot: now"
        await jobs.wait_event("Warning", "UnexpectedJob", note)
    assert "active" not in (await cron_jobs.get())["status"]


async def test_an_active_job_that_is_gone_is_missed(
    client: Client,
    running: Running,
    ender: PodEnder,
    jobs: Jobs,
    cron_jobs: CronJobs,
) -> None:
    ender.outcome = runs
    async with running(*CONTROLLERS):
        await cron_jobs.create()
        await cron_jobs.make_due()
        await cron_jobs.wait_active(1)
        (name,) = await cron_jobs.jobs()
        await client.delete(builtin.JOB, name, namespace=cron_jobs.namespace)
        await cron_jobs.wait_active(0)
        await jobs.wait_event("Normal", "MissingJob", f"Active job went missing: {name}")


async def test_a_foreign_job_of_the_name_is_left_alone(
    client: Client, running: Running, ender: PodEnder, cron_jobs: CronJobs, jobs: Jobs
) -> None:
    ender.outcome = runs
    due = datetime(datetime.now(UTC).year, 1, 1, tzinfo=UTC)
    name = f"tick-{int(due.timestamp()) // 60}"
    await jobs.create(name)
    async with running(*CONTROLLERS):
        await cron_jobs.create()
        await cron_jobs.create("tock")
        await cron_jobs.make_due()
        await cron_jobs.make_due("tock")
        await cron_jobs.wait_active(1, "tock")
    assert "active" not in (await cron_jobs.get())["status"]
    assert "ownerReferences" not in (await jobs.get(name))["metadata"]


def is_no_event(call: Call) -> bool:
    return call.resource != "events"


@pytest.mark.parametrize("after_commit", [False, True], ids=["lost", "carried out"])
async def test_it_starts_one_job_wherever_it_is_killed(
    after_commit: bool,
    transport: Transport,
    running: Running,
    ender: PodEnder,
    cron_jobs: CronJobs,
    jobs: Jobs,
    eventually: Eventually,
) -> None:
    async def play(name: str) -> None:
        await cron_jobs.create(name)
        await cron_jobs.make_due(name)

        async def has_ended() -> bool:
            status = (await cron_jobs.get(name))["status"]
            return "lastSuccessfulTime" in status and "active" not in status

        await eventually(has_ended)

    number, rule = 0, None
    async with running("job"):
        while rule is None or rule.hits:
            number += 1
            name, faults = f"tick{number}", Faults()
            rule = faults.kill("write", nth=number, after_commit=after_commit, where=is_no_event)
            async with running("cronjob", through=FaultyTransport(transport, faults), dies=True):
                playing = asyncio.create_task(play(name))
                hit = asyncio.create_task(rule.wait_hit())
                await asyncio.wait((hit, playing), return_when=asyncio.FIRST_COMPLETED)
                hit.cancel()
            async with running("cronjob"):
                await playing
            assert len(await cron_jobs.jobs(name)) == 1, str(rule.hits)
    assert number > 2


async def test_answers_that_are_lost_start_no_job_twice(
    transport: Transport, running: Running, ender: PodEnder, cron_jobs: CronJobs
) -> None:
    faults = Faults()
    faults.cut("create", "jobs.batch", times=2, after_commit=True)
    faults.cut("write", "cronjobs.batch/status", times=2, after_commit=True)
    async with running("job"), running("cronjob", through=FaultyTransport(transport, faults)):
        await cron_jobs.create()
        await cron_jobs.make_due()
        ender.outcome = runs
        await cron_jobs.wait_active(1)
    assert len(faults.log) == 3
    assert len(await cron_jobs.jobs()) == 1
