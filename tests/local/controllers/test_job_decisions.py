"""The pure half of the Job controller: tally, verdict, plan, counting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.local.controllers.batch_objects import build_job, build_job_pod
from tests.local.controllers.objects import NOW

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.job.backoff import Backoff
from kubewright.local.controllers.job.counting import MAX_UNCOUNTED, plan_counting
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import finish_time, rank_for_removal, uid_of
from kubewright.local.controllers.job.pod_plan import PodPlan, plan_pods
from kubewright.local.controllers.job.pod_template import build_pod, names_of
from kubewright.local.controllers.job.status import count_released
from kubewright.local.controllers.job.tally import build_tally
from kubewright.local.controllers.job.verdict import Verdict, judge


def plan(job: Object, pods: Sequence[Object], backoff: Backoff | None = None) -> PodPlan:
    view = Job(job)
    tally = build_tally(view, pods)
    verdict = judge(view, tally, NOW, NOW)
    return plan_pods(view, tally, verdict, backoff or Backoff(), NOW)


def end(job: Object, pods: Sequence[Object], *, started: int = 0) -> str | None:
    view = Job(job)
    start = NOW - timedelta(seconds=started)
    verdict = judge(view, build_tally(view, pods), start, NOW)
    return None if verdict is None else verdict.reason


def names(pods: Sequence[Object]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


class TestPods:
    def test_no_more_pods_than_completions_are_left_to_make(self) -> None:
        job = build_job(completions=5, parallelism=4, status={"succeeded": 2})
        assert plan(job, [build_job_pod("a")]).create == [None, None]
        assert plan(job, [build_job_pod("a"), build_job_pod("b", "Succeeded")]).create == [None]

    def test_a_pod_that_is_counted_already_takes_no_place(self) -> None:
        job = build_job(completions=2, parallelism=2, status={"succeeded": 1})
        assert plan(job, [build_job_pod("a", "Succeeded", tracked=False)]).create == [None]

    def test_without_completions_nothing_starts_after_the_first_success(self) -> None:
        job = build_job(completions=None, parallelism=3)
        assert len(plan(job, [build_job_pod("a")]).create) == 2
        assert plan(job, [build_job_pod("a"), build_job_pod("b", "Succeeded")]) == PodPlan()

    def test_surplus_pods_go_and_are_not_counted(self) -> None:
        job = build_job(completions=5, parallelism=1)
        found = plan(job, [build_job_pod("a", ready=True), build_job_pod("b", "Pending")])
        assert names(found.delete) == ["b"]
        assert not found.keeps_count

    def test_a_suspended_job_has_no_pods(self) -> None:
        job = build_job(parallelism=2, completions=2, suspend=True)
        assert names(plan(job, [build_job_pod("a"), build_job_pod("b")]).delete) == ["a", "b"]
        assert plan(job, []) == PodPlan()

    def test_a_job_that_is_deleted_makes_no_pods(self) -> None:
        assert plan(build_job(deleting=True), []) == PodPlan()

    @pytest.mark.parametrize(("policy", "count"), [("TerminatingOrFailed", 1), ("Failed", 0)])
    def test_the_replacement_policy_says_when_an_ending_pod_is_replaced(
        self, policy: str, count: int
    ) -> None:
        job = build_job(podReplacementPolicy=policy)
        assert len(plan(job, [build_job_pod("a", deleting=True)]).create) == count

    def test_failures_delay_the_next_pod(self) -> None:
        waiting = plan(build_job(), [], Backoff(2, NOW - timedelta(seconds=5)))
        assert waiting == PodPlan(after=timedelta(seconds=15))
        assert plan(build_job(), [], Backoff(2, NOW - timedelta(seconds=20))).create == [None]

    def test_indexes_without_a_pod_get_one_and_second_ones_go(self) -> None:
        job = build_job(
            indexed=True, completions=6, parallelism=4, status={"completedIndexes": "1,2"}
        )
        pods = [build_job_pod("a", index=0), build_job_pod("b", index=4)]
        assert plan(job, pods).create == [3, 5]
        twice = [*pods, build_job_pod("again", "Pending", index=4), build_job_pod("x", index=9)]
        assert sorted(names(plan(job, twice).delete)) == ["again", "x"]

    def test_each_index_waits_for_itself(self) -> None:
        job = build_job(indexed=True, completions=2, parallelism=2, backoffLimitPerIndex=3)
        pods = [
            build_job_pod("a", "Failed", index=0, failures=0, ended=3),
            build_job_pod("b", "Failed", index=1, failures=0, ended=30),
        ]
        assert plan(job, pods).create == [1]
        assert plan(job, pods[:1]).create == [1]
        running = build_job_pod("b2", index=1, failures=1)
        assert plan(job, [*pods, running]).after == timedelta(seconds=7)

    def test_a_failed_index_is_not_tried_again(self) -> None:
        job = build_job(indexed=True, completions=3, parallelism=3, backoffLimitPerIndex=0)
        pods = [build_job_pod("a", "Failed", index=0, failures=0), build_job_pod("b", index=1)]
        assert plan(job, pods).create == [2]

    def test_removal_begins_with_what_has_come_least_far(self) -> None:
        pods = [
            build_job_pod("ready", ready=True),
            build_job_pod("running"),
            build_job_pod("restarted", restarts=3),
            build_job_pod("pending", "Pending"),
            build_job_pod("unassigned", "Pending", node=""),
        ]
        order = ["unassigned", "pending", "restarted", "running", "ready"]
        assert names(rank_for_removal(pods)) == order


class TestEnd:
    def test_too_many_failures(self) -> None:
        job = build_job(backoffLimit=1, status={"failed": 1})
        assert end(job, []) is None
        assert end(job, [build_job_pod("a", "Failed")]) == "BackoffLimitExceeded"
        assert end(job, [build_job_pod("a", "Failed", tracked=False)]) is None

    def test_a_deleted_pod_is_a_failure_unless_only_failed_ones_are_replaced(self) -> None:
        pods = [build_job_pod("a", deleting=True)]
        assert end(build_job(backoffLimit=0), pods) == "BackoffLimitExceeded"
        assert end(build_job(backoffLimit=0, podReplacementPolicy="Failed"), pods) is None

    @pytest.mark.parametrize(
        ("restart", "restarts", "limit", "reason"),
        [
            ("OnFailure", 2, 2, "BackoffLimitExceeded"),
            ("OnFailure", 1, 2, None),
            ("OnFailure", 1, 0, "BackoffLimitExceeded"),
            ("OnFailure", 0, 0, None),
            ("Never", 5, 2, None),
        ],
    )
    def test_restarts_count_where_containers_restart_in_place(
        self, restart: str, restarts: int, limit: int, reason: str | None
    ) -> None:
        job = build_job(restart=restart, backoffLimit=limit)
        assert end(job, [build_job_pod("a", restarts=restarts)]) == reason

    def test_the_deadline_does_not_run_while_suspended(self) -> None:
        assert end(build_job(activeDeadlineSeconds=10), [], started=10) == "DeadlineExceeded"
        assert end(build_job(activeDeadlineSeconds=10), [], started=9) is None
        assert end(build_job(activeDeadlineSeconds=10, suspend=True), [], started=10) is None

    def test_failed_indexes_end_the_job_when_all_are_over_or_too_many_are(self) -> None:
        spec: Any = {"indexed": True, "completions": 3, "backoffLimitPerIndex": 0}
        pods = [build_job_pod("a", "Failed", index=0, failures=0)]
        assert end(build_job(**spec, maxFailedIndexes=1), pods) is None
        assert end(build_job(**spec, maxFailedIndexes=0), pods) == "MaxFailedIndexesExceeded"
        over = [*pods, build_job_pod("b", "Succeeded", index=1)]
        assert end(build_job(**spec), over) is None
        assert end(build_job(**spec, status={"completedIndexes": "2"}), over) == "FailedIndexes"

    def test_what_was_decided_stays_decided(self) -> None:
        met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy"}
        failed = [build_job_pod("a", "Failed")]
        job = build_job(backoffLimit=0, status={"conditions": [met]})
        assert end(job, failed) == "SuccessPolicy"
        target = {"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy"}
        job = build_job(status={"conditions": [target], "succeeded": 1})
        assert end(job, []) == "PodFailurePolicy"


class TestCounting:
    def test_a_pod_is_written_down_before_its_finalizer_goes(self) -> None:
        job = Job(build_job(completions=3))
        tally = build_tally(job, [build_job_pod("a", "Succeeded"), build_job_pod("b", "Failed")])
        counting = plan_counting(job, tally, {}, None)
        uncounted = {"succeeded": ["uid-a"], "failed": ["uid-b"]}
        assert counting.status == {"uncountedTerminatedPods": uncounted}
        assert names(counting.release) == ["a", "b"]
        after = {"succeeded": 1, "failed": 1, "uncountedTerminatedPods": {}}
        assert count_released(counting.status, set()) == after

    def test_a_look_that_died_after_the_write_counts_nothing_twice(self) -> None:
        job = build_job(completions=3, status={"uncountedTerminatedPods": {"succeeded": ["uid-a"]}})
        view = Job(job)
        tally = build_tally(view, [build_job_pod("a", "Succeeded")])
        assert tally.succeeded == 1
        counting = plan_counting(view, tally, job["status"], None)
        assert counting.status["uncountedTerminatedPods"] == {"succeeded": ["uid-a"]}
        assert names(counting.release) == ["a"]

    def test_a_look_that_died_after_the_release_still_counts(self) -> None:
        job = build_job(completions=3, status={"uncountedTerminatedPods": {"succeeded": ["uid-a"]}})
        for pods in ([], [build_job_pod("a", "Succeeded", tracked=False)]):
            tally = build_tally(Job(job), pods)
            assert tally.succeeded == 1
            counting = plan_counting(Job(job), tally, job["status"], None)
            assert counting.status == {"succeeded": 1, "uncountedTerminatedPods": {}}

    def test_a_view_that_lags_behind_a_release_counts_nothing_twice(self) -> None:
        job = build_job(completions=3, status={"succeeded": 1})
        pod = build_job_pod("a", "Succeeded")
        tally = build_tally(Job(job), [pod], released={uid_of(pod)})
        assert tally.succeeded == 1
        assert plan_counting(Job(job), tally, job["status"], None).release == []

    def test_an_index_counts_once_however_many_pods_complete_it(self) -> None:
        job = Job(build_job(indexed=True, completions=3, status={"completedIndexes": "0"}))
        pods = [
            build_job_pod("a", "Succeeded", index=0),
            build_job_pod("b", "Succeeded", index=1),
            build_job_pod("c", "Succeeded", index=1),
            build_job_pod("d", "Succeeded", index=7),
        ]
        counting = plan_counting(job, build_tally(job, pods), dict(job.status), None)
        assert counting.status["completedIndexes"] == "0,1"
        assert counting.status["succeeded"] == 2
        assert len(counting.release) == 4

    def test_pods_that_a_failure_ends_have_failed_and_those_that_a_success_ends_have_not(
        self,
    ) -> None:
        job = Job(build_job(completions=3))
        tally = build_tally(job, [build_job_pod("a")])
        failed = plan_counting(job, tally, {}, Verdict(False, "R", "m"))
        assert failed.status["uncountedTerminatedPods"] == {"failed": ["uid-a"]}
        succeeded = plan_counting(job, tally, {}, Verdict(True, "R", "m"))
        assert succeeded.status["uncountedTerminatedPods"] == {}
        assert names(succeeded.release) == ["a"]

    def test_an_ignored_failure_lets_its_pod_go_uncounted(self) -> None:
        rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}
        job = Job(build_job(podFailurePolicy={"rules": [rule]}))
        tally = build_tally(job, [build_job_pod("a", "Failed")])
        counting = plan_counting(job, tally, {}, None)
        assert tally.failed == 0
        assert counting.status["uncountedTerminatedPods"] == {}
        assert names(counting.release) == ["a"]

    def test_a_huge_job_is_counted_in_parts(self) -> None:
        job = Job(build_job(completions=2000))
        pods = [build_job_pod(f"p{n}", "Succeeded") for n in range(MAX_UNCOUNTED + 5)]
        counting = plan_counting(job, build_tally(job, pods), {}, None)
        assert len(counting.release) == MAX_UNCOUNTED
        assert not counting.is_whole

    def test_the_last_failed_pod_of_an_index_stays_until_its_successor_has_its_count(self) -> None:
        job = Job(build_job(indexed=True, completions=1, backoffLimitPerIndex=3))
        old = build_job_pod("old", "Failed", index=0, failures=0)
        waiting = build_tally(job, [old])
        assert plan_counting(job, waiting, {}, None).release == []
        successor = build_pod(job, waiting, 0, "new", "new-")
        counts = {"batch.kubernetes.io/job-index-failure-count": "1"}
        assert counts.items() <= successor["metadata"]["annotations"].items()
        both = build_tally(job, [old, build_job_pod("new", index=0, failures=1)])
        assert names(plan_counting(job, both, {}, None).release) == ["old"]


class TestBackoff:
    def test_it_doubles_up_to_ten_minutes_and_a_success_clears_it(self) -> None:
        waits = [Backoff(n, NOW).remaining(NOW).total_seconds() for n in range(1, 9)]
        assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
        assert Backoff(10_000, NOW).remaining(NOW) == timedelta(minutes=10)
        failed = [build_job_pod("a", "Failed", ended=30), build_job_pod("b", "Failed", ended=10)]
        backoff = Backoff(1, NOW).after([], failed)
        assert backoff == Backoff(3, NOW - timedelta(seconds=10))
        succeeded = build_job_pod("c", "Succeeded", ended=20)
        assert backoff.after([succeeded], failed) == Backoff(1, NOW - timedelta(seconds=10))
        assert backoff.after([succeeded], []) == Backoff()

    def test_a_pod_tells_as_well_as_it_can_when_it_ended(self) -> None:
        pod = build_job_pod("a", "Failed", ended=30)
        assert finish_time(pod) == NOW - timedelta(seconds=30)
        pod["status"]["containerStatuses"] = []
        pod["status"]["conditions"][0]["lastTransitionTime"] = format_time(NOW)
        assert finish_time(pod) == NOW
        pod["status"]["conditions"] = []
        pod["metadata"]["deletionTimestamp"] = format_time(NOW)
        pod["metadata"]["deletionGracePeriodSeconds"] = 30
        assert finish_time(pod) == NOW - timedelta(seconds=30)
        del pod["metadata"]["deletionTimestamp"]
        assert finish_time(pod) == NOW - timedelta(hours=1)


class TestTemplate:
    def test_a_pod_knows_its_index(self) -> None:
        job = Job(build_job(indexed=True, completions=3))
        env = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
        job.spec["template"]["spec"]["initContainers"] = [{"name": "i", "env": env}]
        pod = build_pod(job, build_tally(job, []), 2, "work-2-abcde", "work-2-")
        index = {"batch.kubernetes.io/job-completion-index": "2"}
        assert pod["metadata"]["annotations"] == index
        assert pod["metadata"]["labels"] == {"job-name": "work", **index}
        assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        assert pod["spec"]["hostname"] == "work-2"
        assert pod["spec"]["initContainers"][0]["env"] == env
        reference = pod["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]
        assert reference == {
            "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"
        }
        assert "env" not in job.spec["template"]["spec"]["containers"][0]

    def test_long_names_keep_their_index(self) -> None:
        job = Job(build_job("j" * 63))
        names = names_of(job, 123)
        assert names.generate_name == "j" * 53 + "-123-"
        assert len(names.name(0)) == 63
        assert names_of(job, 4).name(0)[-5:] != names.name(0)[-5:]
