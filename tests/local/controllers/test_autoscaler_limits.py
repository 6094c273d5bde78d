"""What keeps an autoscaler from flapping and from running away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.local.controllers.objects import NOW

from kubewright.local.controllers.horizontal_pod_autoscaler.behavior import (
    Behavior,
    read_behavior,
    read_tolerances,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.history import History
from kubewright.local.controllers.horizontal_pod_autoscaler.limits import (
    limit_by_behavior,
    limit_step,
)


def seconds(number: int) -> timedelta:
    return timedelta(seconds=number)


def behave(**behavior: Any) -> Behavior:
    read = read_behavior({"spec": {"behavior": behavior}})
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("current", "wish", "replicas", "reason"),
    [
        (3, 5, 5, "DesiredWithinRange"),
        (1, 9, 4, "ScaleUpLimit"),
        (5, 90, 10, "ScaleUpLimit"),
        (9, 90, 12, "TooManyReplicas"),
        (5, 0, 2, "TooFewReplicas"),
    ],
)
def test_a_step_goes_to_twice_the_replicas_or_four(
    current: int, wish: int, replicas: int, reason: str
) -> None:
    limited = limit_step(current, wish, 2, 12)
    assert (limited.replicas, limited.reason) == (replicas, reason)


def test_scaling_down_waits_for_the_highest_wish_of_five_minutes() -> None:
    history = History()
    history.begin(10, NOW)
    assert history.stabilize_descent(2, NOW + seconds(15)) == 10
    assert history.stabilize_descent(3, NOW + seconds(290)) == 10
    assert history.stabilize_descent(2, NOW + seconds(301)) == 3


def test_windows_hold_back_in_both_directions() -> None:
    behavior = behave(
        scaleUp={"stabilizationWindowSeconds": 60}, scaleDown={"stabilizationWindowSeconds": 120}
    )
    history = History()
    history.begin(5, NOW)
    # A spike shorter than the window changes nothing.
    assert history.stabilize(behavior, 5, 9, NOW + seconds(30)) == 5
    assert history.stabilize(behavior, 5, 5, NOW + seconds(45)) == 5
    # A rise that lasts goes as far as all wishes of the window agree.
    assert history.stabilize(behavior, 5, 8, NOW + seconds(106)) == 8
    assert history.stabilize(behavior, 8, 1, NOW + seconds(120)) == 8
    assert history.stabilize(behavior, 8, 1, NOW + seconds(240)) == 1


def test_policies_count_what_was_added_in_their_period() -> None:
    policies = [{"type": "Pods", "value": 3, "periodSeconds": 60}]
    behavior = behave(scaleUp={"policies": policies})
    history = History()
    first = limit_by_behavior(behavior, history, 2, 20, (1, 20), NOW)
    assert (first.replicas, first.reason) == (5, "ScaleUpLimit")
    history.note_scaling(behavior, 2, 5, NOW)
    again = limit_by_behavior(behavior, history, 5, 20, (1, 20), NOW + seconds(30))
    assert again.replicas == 5
    later = limit_by_behavior(behavior, history, 5, 20, (1, 20), NOW + seconds(61))
    assert later.replicas == 8


@pytest.mark.parametrize(
    ("select", "up", "down"), [("Max", 10, 5), ("Min", 6, 9), ("Disabled", 5, 10)]
)
def test_one_policy_is_selected(select: str, up: int, down: int) -> None:
    policies = [
        {"type": "Pods", "value": 1, "periodSeconds": 60},
        {"type": "Percent", "value": 100, "periodSeconds": 60},
    ]
    halving = [policies[0], {"type": "Percent", "value": 50, "periodSeconds": 60}]
    behavior = behave(
        scaleUp={"policies": policies, "selectPolicy": select},
        scaleDown={"policies": halving, "selectPolicy": select},
    )
    history = History()
    assert limit_by_behavior(behavior, history, 5, 50, (1, 50), NOW).replicas == up
    assert limit_by_behavior(behavior, history, 10, 1, (1, 50), NOW).replicas == down


def test_a_percentage_lets_a_single_replica_grow() -> None:
    policies = [{"type": "Percent", "value": 10, "periodSeconds": 60}]
    behavior = behave(scaleUp={"policies": policies})
    assert limit_by_behavior(behavior, History(), 1, 9, (1, 9), NOW).replicas == 2


def test_tolerances_are_those_of_the_directions() -> None:
    behavior = {"scaleUp": {"tolerance": "50m"}, "scaleDown": {"tolerance": "0"}}
    tolerances = read_tolerances({"spec": {"behavior": behavior}})
    assert tolerances.holds(1.05)
    assert not tolerances.holds(1.06)
    assert not tolerances.holds(0.99)
    assert read_tolerances({"spec": {}}).holds(0.9)
