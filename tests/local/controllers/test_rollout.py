from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.local.controllers.objects import (
    NOW,
    build_deployment,
    build_replica_set,
    build_template,
)

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.local.controllers.deployment.deployment import resolve
from kubewright.local.controllers.deployment.rollout import (
    CreateReplicaSet,
    DeleteReplicaSet,
    Rollout,
    UpdateReplicaSet,
    plan_rollout,
)
from kubewright.local.controllers.deployment.template_hash import build_template_hash


def scales(rollout: Rollout) -> dict[str, tuple[int, int]]:
    return {
        step.after.name: (step.before.replicas, step.after.replicas)
        for step in rollout.steps
        if isinstance(step, UpdateReplicaSet) and step.before.replicas != step.after.replicas
    }


def condition(rollout: Rollout, type: str) -> Object:
    found = find_condition(rollout.status["conditions"], type)
    assert found is not None
    return found


def annotated(revision: int, desired: int, most: int) -> dict[str, str]:
    prefix = "deployment.kubernetes.io/"
    return {
        f"{prefix}revision": str(revision),
        f"{prefix}desired-replicas": str(desired),
        f"{prefix}max-replicas": str(most),
    }


def test_creates_a_replica_set_named_by_the_hash_of_the_template() -> None:
    rollout = plan_rollout(build_deployment(2), [], now=NOW)
    (step,) = rollout.steps
    assert isinstance(step, CreateReplicaSet)
    hash = build_template_hash(build_template(), 0)
    made = step.replica_set.obj
    assert made["metadata"]["name"] == f"web-{hash}"
    assert made["metadata"]["labels"]["pod-template-hash"] == hash
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hash}
    assert made["metadata"]["annotations"] == annotated(1, 2, 3)
    assert made["spec"]["replicas"] == 2
    assert rollout.revision == "1"
    assert condition(rollout, "Progressing")["reason"] == "NewReplicaSetCreated"


def test_a_hash_does_not_depend_on_the_order_of_keys() -> None:
    template = build_template()
    turned = dict(reversed(template.items()))
    assert build_template_hash(template, 0) == build_template_hash(turned, 0)
    assert build_template_hash(template, 0) != build_template_hash(template, 1)


def test_a_complete_rollout_needs_no_step() -> None:
    done = build_replica_set(replicas=3, annotations=annotated(1, 3, 4))
    deployment = build_deployment(3)
    first = plan_rollout(deployment, [done], now=NOW)
    assert first.steps == []
    assert condition(first, "Progressing")["reason"] == "NewReplicaSetAvailable"
    deployment["status"] = first.status
    again = plan_rollout(deployment, [done], now=NOW + timedelta(hours=1))
    assert again.status == first.status
    assert again.after is None


@pytest.mark.parametrize(
    ("value", "of", "up", "expected"),
    [("25%", 3, True, 1), ("25%", 3, False, 0), (2, 9, True, 2), ("100%", 7, True, 7)],
)
def test_surge_rounds_up_and_unavailable_down(
    value: int | str, of: int, up: bool, expected: int
) -> None:
    assert resolve(value, of, round_up=up) == expected


def test_annotations_are_copied_and_lost_ones_kept() -> None:
    deployment = build_deployment(1)
    deployment["metadata"]["annotations"] = {
        "b": "3",
        "kubectl.kubernetes.io/last-applied-configuration": "x",
    }
    old = build_replica_set(annotations={**annotated(1, 1, 2), "a": "1"})
    (step,) = plan_rollout(deployment, [old], now=NOW).steps
    assert isinstance(step, UpdateReplicaSet)
    assert step.after.annotations == {**annotated(1, 1, 2), "a": "1", "b": "3"}


def test_going_back_gives_the_old_replica_set_a_new_revision_and_a_history() -> None:
    one = build_replica_set("one", 0, version="1", annotations=annotated(1, 1, 2), age=9)
    two = build_replica_set("two", 1, version="2", annotations=annotated(2, 1, 2))
    rollout = plan_rollout(build_deployment(1, "1"), [one, two], now=NOW)
    assert rollout.revision == "3"
    (step,) = rollout.steps
    assert isinstance(step, UpdateReplicaSet)
    assert step.after.annotations["deployment.kubernetes.io/revision"] == "3"
    assert step.after.annotations["deployment.kubernetes.io/revision-history"] == "1"


def test_scaling_amid_a_stuck_rollout_is_proportional() -> None:
    strategy: Any = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
    old = build_replica_set("old", 5, version="1", annotations=annotated(1, 6, 8), age=9)
    new = build_replica_set("new", 3, version="2", available=0, annotations=annotated(2, 6, 8))
    rollout = plan_rollout(build_deployment(12, "2", strategy=strategy), [old, new], now=NOW)
    assert scales(rollout) == {"old": (5, 9), "new": (3, 5)}


def test_a_replica_set_scaled_by_hand_is_put_right() -> None:
    by_hand = build_replica_set(replicas=4, annotations=annotated(1, 1, 2))
    assert scales(plan_rollout(build_deployment(1), [by_hand], now=NOW)) == {"web": (4, 1)}


def test_a_paused_deployment_scales_but_rolls_nothing_out() -> None:
    old = build_replica_set(replicas=1, version="1", annotations=annotated(1, 1, 2))
    deployment = build_deployment(2, "2", paused=True)
    rollout = plan_rollout(deployment, [old], now=NOW)
    assert scales(rollout) == {"web": (1, 2)}
    assert condition(rollout, "Progressing")["reason"] == "DeploymentPaused"
    assert "updatedReplicas" not in rollout.status


def test_recreate_waits_for_old_pods_to_be_gone() -> None:
    deployment = build_deployment(1, "2", strategy={"type": "Recreate"})
    old = build_replica_set("old", 1, version="1", annotations=annotated(1, 1, 1))
    assert scales(plan_rollout(deployment, [old], now=NOW)) == {"old": (1, 0)}
    gone = build_replica_set("old", 0, version="1", annotations=annotated(1, 1, 1))
    assert plan_rollout(deployment, [gone], has_old_pods=True, now=NOW).steps == []
    (step,) = plan_rollout(deployment, [gone], now=NOW).steps
    assert isinstance(step, CreateReplicaSet)


def test_unhealthy_old_pods_go_first() -> None:
    sick = build_replica_set("sick", 2, version="0", available=0, annotations=annotated(1, 4, 5))
    well = build_replica_set("well", 2, version="1", annotations=annotated(2, 4, 5), age=5)
    new = build_replica_set("new", 1, version="2", available=1, annotations=annotated(3, 4, 5))
    rollout = plan_rollout(build_deployment(4, "2"), [sick, well, new], now=NOW)
    assert scales(rollout) == {"sick": (2, 0)}


def test_old_replica_sets_beyond_the_limit_are_deleted_oldest_first() -> None:
    old = [
        build_replica_set(f"r{i}", 0, version=f"0{i}", annotations=annotated(i, 0, 0))
        for i in (1, 2, 3)
    ]
    new = build_replica_set("new", 0, version="1", annotations=annotated(4, 0, 0))
    deployment = build_deployment(0, revisionHistoryLimit=1)
    deployment["status"] = {"observedGeneration": 1}
    steps = plan_rollout(deployment, [*old, new], now=NOW).steps
    deleted = [s.replica_set.name for s in steps if isinstance(s, DeleteReplicaSet)]
    assert deleted == ["r1", "r2"]


def test_a_missed_deadline_is_reported_and_recovers() -> None:
    stuck = build_replica_set(replicas=1, available=0, annotations=annotated(1, 1, 2))
    deployment = build_deployment(1, progressDeadlineSeconds=2)
    first = plan_rollout(deployment, [stuck], now=NOW)
    assert first.after is not None
    deployment["status"] = first.status
    late = plan_rollout(deployment, [stuck], now=NOW + timedelta(seconds=3))
    assert condition(late, "Progressing")["reason"] == "ProgressDeadlineExceeded"
    assert condition(late, "Progressing")["status"] == "False"
    deployment["status"] = late.status
    ready = build_replica_set(replicas=1, annotations=annotated(1, 1, 2))
    done = plan_rollout(deployment, [ready], now=NOW + timedelta(seconds=9))
    assert condition(done, "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_a_failing_replica_set_is_reported_until_it_recovers() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "m"}
    failing = build_replica_set(replicas=2, available=1, annotations=annotated(1, 2, 3))
    failing["status"]["conditions"] = [failure]
    deployment = build_deployment(2)
    rollout = plan_rollout(deployment, [failing], now=NOW)
    assert condition(rollout, "ReplicaFailure")["message"] == "m"
    deployment["status"] = rollout.status
    well = build_replica_set(replicas=2, annotations=annotated(1, 2, 3))
    recovered = plan_rollout(deployment, [well], now=NOW)
    assert find_condition(recovered.status["conditions"], "ReplicaFailure") is None


def test_a_deployment_that_is_being_deleted_changes_nothing() -> None:
    deployment = build_deployment(3, "2")
    deployment["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert plan_rollout(deployment, [build_replica_set()], now=NOW).steps == []
