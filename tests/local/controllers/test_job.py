"""The Job controllers on an API server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.batch_objects import build_job
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.jobs import Jobs
from tests.local.controllers.pod_ender import PodEnder, runs, succeeds
from tests.local.controllers.test_controllers import refer

from kubewright.api import builtin
from kubewright.api.conditions import find_condition, is_condition_true
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.transport import Transport
from kubewright.testing import Faults
from kubewright.testing.faulty_transport import FaultyTransport

TRACKING = "batch.kubernetes.io/job-tracking"


async def test_a_job_completes_and_lets_its_pods_go(
    running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    async with running("job"):
        await jobs.create(completions=3, parallelism=2)
        job = await jobs.wait_condition("Complete")
        await jobs.wait_event("Normal", "Completed", "Job completed")
    status = job["status"]
    assert [c["type"] for c in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert (status["succeeded"], status["ready"], status["terminating"]) == (3, 0, 0)
    assert status["completionTime"] >= status["startTime"]
    pods = await jobs.pods()
    assert {pod["metadata"]["name"] for pod in pods} == ender.names
    assert len(pods) == 3
    assert not any(pod["metadata"].get("finalizers") for pod in pods)
    created = {("Normal", "SuccessfulCreate", f"Created pod: {name}") for name in ender.names}
    assert created < await jobs.events()


async def test_a_failed_job_ends_its_other_pods_and_says_why(
    running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    ender.outcome = runs
    async with running("job"):
        await jobs.create(completions=2, parallelism=2, backoffLimit=0)
        await jobs.wait_count("ready", 2)
        first = min(ender.names)
        ender.outcome = lambda pod: 1 if pod["metadata"]["name"] == first else None
        ender.look()
        job = await jobs.wait_condition("Failed")
        message = "Job has reached the specified backoff limit"
        await jobs.wait_event("Warning", "BackoffLimitExceeded", message)
    assert [c["type"] for c in job["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert job["status"]["failed"] == 2
    assert "active" not in job["status"]
    assert ender.names >= {first}
    assert len(ender.names) == 2


async def test_suspending_takes_the_pods_away_uncounted_and_resuming_starts_afresh(
    running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    ender.outcome = runs
    async with running("job"):
        await jobs.create(completions=2, parallelism=2)
        await jobs.wait_count("ready", 2)
        await jobs.patch({"suspend": True})
        await jobs.wait_condition("Suspended")
        await jobs.wait_count("terminating", 0)
        await jobs.wait_event("Normal", "Suspended", "Job suspended")
        suspended = await jobs.get()
        assert "startTime" not in suspended["status"]
        assert "failed" not in suspended["status"]
        ender.outcome = succeeds
        await jobs.patch({"suspend": False})
        job = await jobs.wait_condition("Complete")
        await jobs.wait_event("Normal", "Resumed", "Job resumed")
    resumed = find_condition(job["status"]["conditions"], "Suspended")
    assert resumed is not None
    assert (resumed["status"], resumed["reason"]) == ("False", "JobResumed")
    assert job["status"]["succeeded"] == 2
    assert len(ender.names) == 4


async def test_indexes_fail_each_for_themselves(
    running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    index = "batch.kubernetes.io/job-completion-index"
    ender.outcome = lambda pod: int(pod["metadata"]["labels"][index] == "1")
    async with running("job"):
        await jobs.create(indexed=True, completions=4, parallelism=4, backoffLimitPerIndex=0)
        job = await jobs.wait_condition("Failed")
    status = job["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2,3", "1")
    assert (status["succeeded"], status["failed"]) == (3, 1)
    assert status["conditions"][-1]["reason"] == "FailedIndexes"
    assert len(ender.names) == 4


async def test_a_stray_pod_is_adopted_and_counted(
    client: Client, running: Running, ender: PodEnder, jobs: Jobs, eventually: Eventually
) -> None:
    ender.outcome = runs
    selector = {"matchLabels": {"job-name": "work"}}
    stray: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "labels": {"job-name": "work"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1.35"}]},
    }
    stray["metadata"]["namespace"] = jobs.namespace
    await client.create(stray)
    async with running("job"):
        await jobs.create(manualSelector=True, selector=selector)
        await jobs.wait_count("active", 1)
        ender.outcome = succeeds
        ender.look()
        await jobs.wait_condition("Complete")
    assert ender.names == {"stray"}
    assert not (await jobs.pods())[0]["metadata"].get("finalizers")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_a_deleted_job_leaves_nothing_behind(
    propagation: Any, client: Client, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    ender.outcome = runs
    async with running("job", "garbage-collector"):
        await jobs.create(completions=2, parallelism=2)
        await jobs.wait_count("ready", 2)
        await client.delete(builtin.JOB, "work", namespace=jobs.namespace, propagation=propagation)
        await jobs.wait_gone()


async def test_orphaned_pods_are_freed(
    client: Client, running: Running, ender: PodEnder, jobs: Jobs, eventually: Eventually
) -> None:
    ender.outcome = runs
    async with running("job", "garbage-collector"):
        await jobs.create(completions=2, parallelism=2)
        await jobs.wait_count("ready", 2)
        await client.delete(builtin.JOB, "work", namespace=jobs.namespace, propagation="Orphan")

        async def are_free() -> bool:
            metadata = [pod["metadata"] for pod in await jobs.pods()]
            return not any(m.get("finalizers") or m.get("ownerReferences") for m in metadata)

        await eventually(are_free)
    assert len(await jobs.pods()) == 2


async def test_pods_whose_job_went_while_nobody_ran_are_freed(
    client: Client, running: Running, ender: PodEnder, jobs: Jobs, eventually: Eventually
) -> None:
    gone = {**build_job("gone"), "metadata": {"name": "gone", "uid": "no-such-uid"}}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "left",
            "namespace": jobs.namespace,
            "finalizers": [TRACKING],
            "ownerReferences": refer(gone, controller=True),
        },
        "spec": {"containers": [{"name": "c", "image": "busybox:1.35"}]},
    }
    foreign = refer({**gone, "apiVersion": "example.com/v1", "kind": "Batch"}, controller=True)
    other = {**pod, "metadata": {**pod["metadata"], "name": "other", "ownerReferences": foreign}}
    await client.create(pod)
    await client.create(other)
    async with running("job"):

        async def is_free() -> bool:
            pods = {p["metadata"]["name"]: p["metadata"] for p in await jobs.pods()}
            assert pods["other"]["finalizers"] == [TRACKING]
            return "finalizers" not in pods["left"]

        await eventually(is_free)


async def test_a_job_that_another_controller_manages_is_left_alone(
    running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    async with running("job"):
        await jobs.create("theirs", managedBy="example.com/queue")
        await jobs.create("ours")
        await jobs.wait_condition("Complete", "ours")
    assert not (await jobs.get("theirs"))["status"]
    assert not ender.of_job("theirs")


async def test_a_finished_job_goes_when_its_time_has_come(
    running: Running, ender: PodEnder, jobs: Jobs, eventually: Eventually
) -> None:
    async with running("job", "ttl-after-finished", "garbage-collector"):
        await jobs.create(ttlSecondsAfterFinished=0)
        await jobs.create("kept", ttlSecondsAfterFinished=3600)
        await jobs.wait_condition("Complete", "kept")

        async def is_gone() -> bool:
            try:
                await jobs.get()
            except NotFound:
                return True
            return False

        await eventually(is_gone)
    assert {pod["metadata"]["labels"]["job-name"] for pod in await jobs.pods()} == {"kept"}


async def test_what_keeps_pods_from_being_made_is_told_and_tried_again(
    transport: Transport, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    faults = Faults()
    refusal = faults.fail("create", "pods", code=403, message="exceeded quota: q", times=None)
    async with running("job", through=FaultyTransport(transport, faults)):
        await jobs.create()
        await jobs.wait_event("Warning", "FailedCreate", "Error creating: exceeded quota: q")
        assert "active" not in (await jobs.get())["status"]
        refusal.lift()
        await jobs.wait_condition("Complete")


async def test_the_deadline_comes_also_while_pods_are_refused(
    transport: Transport, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    faults = Faults()
    faults.fail("create", "pods", code=403, message="exceeded quota: q", times=None)
    async with running("job", through=FaultyTransport(transport, faults)):
        await jobs.create(activeDeadlineSeconds=2)
        job = await jobs.wait_condition("Failed")
    assert job["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"
    assert 1 < len(faults.log) < 5


async def test_pods_that_cannot_be_deleted_hold_the_end_of_a_job_back(
    transport: Transport, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    ender.outcome = runs
    faults = Faults()
    refusal = faults.fail("delete", "pods", code=403, message="not now", times=None)
    async with running("job", through=FaultyTransport(transport, faults)):
        await jobs.create(completions=2, parallelism=2, activeDeadlineSeconds=1)
        await jobs.wait_event("Warning", "FailedDelete", "Error deleting: not now")
        job = await jobs.wait_condition("FailureTarget")
        assert job["status"]["conditions"][-1]["type"] == "FailureTarget"
        assert all(pod["metadata"].get("finalizers") for pod in await jobs.pods())
        refusal.lift()
        job = await jobs.wait_condition("Failed")
    assert job["status"]["failed"] == 2
    assert len(ender.names) == 2


async def test_finalizers_that_cannot_be_removed_at_first_count_their_pods_once(
    transport: Transport, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    faults = Faults()
    faults.fail("patch", "pods", code=500, chance=0.6, times=6)
    async with running("job", through=FaultyTransport(transport, faults)):
        await jobs.create(completions=4, parallelism=2)
        job = await jobs.wait_condition("Complete")
    assert faults.log
    assert job["status"]["succeeded"] == 4
    assert len(ender.names) == 4
    assert not any(pod["metadata"].get("finalizers") for pod in await jobs.pods())


async def test_answers_that_are_lost_make_no_pod_and_count_none_twice(
    transport: Transport, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    faults = Faults()
    faults.cut("write", chance=0.4, times=None, after_commit=True)
    async with running("job", through=FaultyTransport(transport, faults)):
        await jobs.create(completions=6, parallelism=3)
        job = await jobs.wait_condition("Complete")
    assert faults.log
    assert job["status"]["succeeded"] == 6
    assert len(ender.names) == 6


@pytest.mark.usefixtures("patience")
async def test_a_view_of_pods_that_lags_behind_makes_none_and_counts_none_twice(
    transport: Transport, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    faults = Faults()
    faults.lag_watches("pods", by=0.2)
    async with running("job", through=FaultyTransport(transport, faults)):
        await jobs.create(completions=4, parallelism=2)
        job = await jobs.wait_condition("Complete")
    assert job["status"]["succeeded"] == 4
    assert len(ender.names) == 4


@pytest.mark.usefixtures("patience")
async def test_a_view_of_jobs_that_lags_behind_makes_no_pod_and_counts_none_twice(
    transport: Transport, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    faults = Faults()
    faults.lag_watches("jobs.batch", by=0.2)
    async with running("job", through=FaultyTransport(transport, faults)):
        await jobs.create(completions=4, parallelism=2)
        job = await jobs.wait_condition("Complete")
    assert job["status"]["succeeded"] == 4
    assert len(ender.names) == 4


async def test_a_pod_that_is_deleted_while_it_runs_counts_as_failed_once(
    client: Client, running: Running, ender: PodEnder, jobs: Jobs
) -> None:
    ender.outcome = runs
    async with running("job"):
        await jobs.create(backoffLimit=0)
        await jobs.wait_count("ready", 1)
        await client.delete(builtin.POD, min(ender.names), namespace=jobs.namespace)
        job = await jobs.wait_condition("Failed")
    assert job["status"]["failed"] == 1
    assert not await jobs.pods()
    assert is_condition_true(job, "FailureTarget")
