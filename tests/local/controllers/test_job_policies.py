from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.batch_objects import build_job, build_job_pod

from kubewright.api.resource import Object
from kubewright.local.controllers.job.indexes import Indexes
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.policies import Match, match_failure, match_success

DISRUPTED: Object = {"type": "DisruptionTarget", "status": "True"}


def failure_policy(*rules: Object) -> Job:
    return Job(build_job(podFailurePolicy={"rules": list(rules)}))


def on_codes(action: str, operator: str, *values: int, **more: Any) -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": values, **more}}


def test_without_a_policy_every_failure_counts() -> None:
    assert match_failure(Job(build_job()), build_job_pod("p", "Failed")) == Match()
    assert Match().is_counted


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (on_codes("FailJob", "In", 1, 42), True),
        (on_codes("FailJob", "In", 43), False),
        (on_codes("FailJob", "NotIn", 43), True),
        (on_codes("FailJob", "NotIn", 42), False),
        (on_codes("FailJob", "In", 42, containerName="c"), True),
        (on_codes("FailJob", "In", 42, containerName="other"), False),
    ],
)
def test_exit_codes_match(rule: Object, matches: bool) -> None:
    found = match_failure(failure_policy(rule), build_job_pod("p", "Failed", exit_code=42))
    message = "Container c for pod ns/p failed with exit code 42 matching FailJob rule at index 0"
    assert found == (Match("FailJob", message) if matches else Match())


def test_a_container_that_ended_well_or_runs_matches_no_code() -> None:
    job = failure_policy(on_codes("FailJob", "NotIn", 42))
    assert match_failure(job, build_job_pod("p", "Failed", exit_code=0)) == Match()
    assert match_failure(job, build_job_pod("p", "Running", deleting=True)) == Match()


def test_init_containers_count_too() -> None:
    pod = build_job_pod("p", "Failed", exit_code=0)
    ended = {"name": "i", "state": {"terminated": {"exitCode": 3}}}
    pod["status"]["initContainerStatuses"] = [ended]
    found = match_failure(failure_policy(on_codes("FailIndex", "In", 3)), pod)
    assert found.action == "FailIndex"
    assert found.message.startswith("Container i for pod ns/p")


def test_the_first_rule_that_matches_decides() -> None:
    pod = build_job_pod("p", "Failed", exit_code=42, conditions=[DISRUPTED])
    ignore = {"action": "Ignore", "onPodConditions": [DISRUPTED]}
    fail = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}
    count = on_codes("Count", "In", 42)
    assert not match_failure(failure_policy(ignore, fail), pod).is_counted
    assert match_failure(failure_policy(count, ignore), pod).is_counted
    message = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 1"
    never = {"action": "Ignore", "onPodConditions": [{"type": "X", "status": "True"}]}
    assert match_failure(failure_policy(never, fail), pod).message == message


@pytest.mark.parametrize(
    ("rule", "succeeded", "is_met"),
    [
        ({"succeededCount": 2}, "0", False),
        ({"succeededCount": 2}, "0,4", True),
        ({"succeededIndexes": "0,2"}, "0,1", False),
        ({"succeededIndexes": "0,2"}, "0-3", True),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, "2,3,9", True),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, "3,8,9", False),
        ({"succeededIndexes": "0-20"}, "0-9", True),  # the Job was scaled down to ten
        ({"succeededIndexes": "15"}, "0-9", False),
    ],
)
def test_success_policies(rule: Object, succeeded: str, is_met: bool) -> None:
    rules = {"rules": [{"succeededCount": 10_000}, rule]}
    job = Job(build_job(indexed=True, completions=10, successPolicy=rules))
    found = match_success(job, Indexes.parse(succeeded, 10))
    assert found == ("Matched rules at index 1" if is_met else None)


def test_a_success_policy_needs_a_success() -> None:
    rules = {"rules": [{"succeededCount": 0}]}
    job = Job(build_job(indexed=True, completions=10, successPolicy=rules))
    assert match_success(job, Indexes()) is None
