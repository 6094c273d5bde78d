"""The decisions of PodDisruptionBudgets, without a server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.local.controllers.objects import NOW, build_pod

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.disruption.budget import (
    build_expectation,
    build_failed_status,
    build_status,
    count_healthy,
    needs_scale,
    plan_disruptions,
)
from kubewright.local.controllers.disruption.stale_target import build_reset, stale_in
from kubewright.local.controllers.selector_text import format_selector


def build_budget(status: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "p", "namespace": "ns", "uid": "p", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("spec", "expected", "healthy"),
    [
        ({"maxUnavailable": "30%"}, 5, 3),
        ({"maxUnavailable": "100%"}, 3, 0),
        ({"maxUnavailable": 7}, 3, 0),
        ({"maxUnavailable": 0}, 3, 3),
        ({"minAvailable": "50%"}, 7, 4),
        ({"minAvailable": 9}, 3, 9),
        ({"minAvailable": "0%"}, 3, 0),
    ],
)
def test_percentages_are_rounded_up_for_both_limits(
    spec: Object, expected: int, healthy: int
) -> None:
    assert build_expectation(build_budget(**spec), expected).healthy == healthy


def test_a_count_of_available_pods_needs_no_controllers() -> None:
    assert not needs_scale(build_budget(minAvailable=1))
    assert needs_scale(build_budget(minAvailable="1%"))
    assert needs_scale(build_budget(maxUnavailable=0))


def test_a_budget_without_pods_allows_nothing() -> None:
    budget = build_budget(minAvailable=0)
    status = build_status(budget, build_expectation(budget, 0), 0, {}, NOW)
    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["reason"] == "InsufficientPods"


def test_an_evicted_pod_is_not_healthy_before_it_is_deleted() -> None:
    pods = [build_pod("a"), build_pod("b"), build_pod("c", deleting=True)]
    budget = build_budget({"disruptedPods": {"a": format_time(NOW), "gone": format_time(NOW)}})
    plan = plan_disruptions(budget, pods, NOW)
    assert plan.pending == {"a": format_time(NOW)}
    assert plan.recheck == NOW + timedelta(minutes=2)
    assert count_healthy(pods, plan.pending) == 1


def test_a_pod_that_outlives_its_eviction_counts_again() -> None:
    moment = format_time(NOW - timedelta(seconds=121))
    plan = plan_disruptions(build_budget({"disruptedPods": {"a": moment}}), [build_pod("a")], NOW)
    assert [pod["metadata"]["name"] for pod in plan.survivors] == ["a"]
    assert plan.pending == {}
    assert plan.recheck is None


def test_a_failure_allows_nothing_and_keeps_what_was_known() -> None:
    before = build_budget(minAvailable=1)
    before["status"] = build_status(before, build_expectation(before, 3), 3, {}, NOW)
    later = NOW + timedelta(seconds=5)
    status = build_failed_status(before, "no scale", later)
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 3)
    condition = status["conditions"][0]
    assert (condition["reason"], condition["message"]) == ("SyncFailed", "no scale")
    assert condition["lastTransitionTime"] == format_time(later)


def test_a_selector_is_told_as_go_prints_it() -> None:
    selector = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
    }
    assert format_selector(selector) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:"
        "[]LabelSelectorRequirement{LabelSelectorRequirement{Key:tier,Operator:In,"
        "Values:[x y],},},}"
    )


def with_target(pod: Object, *, reason: str = "EvictionByEvictionAPI", age: int = 0) -> Object:
    pod["metadata"]["resourceVersion"] = "7"
    pod["status"]["conditions"].append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "lastTransitionTime": format_time(NOW - timedelta(seconds=age)),
        }
    )
    return pod


def test_an_announced_disruption_is_stale_after_two_minutes() -> None:
    assert stale_in(with_target(build_pod(), age=30), NOW) == timedelta(seconds=90)
    assert stale_in(with_target(build_pod(), age=500), NOW) == timedelta()


@pytest.mark.parametrize(
    "pod",
    [
        build_pod(),
        with_target(build_pod(deleting=True)),
        with_target(build_pod(phase="Failed")),
        with_target(build_pod(), reason="TerminationByKubelet"),
    ],
)
def test_other_disruptions_are_never_stale(pod: Object) -> None:
    assert stale_in(pod, NOW) is None


def test_a_reset_keeps_other_conditions_and_the_version_that_was_read() -> None:
    patch = build_reset(with_target(build_pod()), NOW)
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert [(c["type"], c["status"]) for c in patch["status"]["conditions"]] == [
        ("Ready", "True"),
        ("DisruptionTarget", "False"),
    ]
