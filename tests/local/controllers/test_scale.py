from __future__ import annotations

from datetime import timedelta

import pytest
from tests.local.controllers.objects import NOW, build_replica_set
from tests.local.controllers.objects import build_pod as build_running

from kubewright.api.resource import Object
from kubewright.local.controllers.replicaset.ranking import rank_for_deletion
from kubewright.local.controllers.replicaset.scale import (
    BURST_REPLICAS,
    build_failure,
    build_pod,
    build_status,
    next_availability,
    plan_batches,
    plan_scale,
)


def names(pods: tuple[Object, ...] | list[Object]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def test_creates_what_is_missing() -> None:
    plan = plan_scale(build_replica_set(replicas=3), [build_running()], [], NOW)
    assert (plan.create, plan.delete) == (2, ())


def test_finished_and_ending_pods_are_replaced() -> None:
    pods = [build_running("a", phase="Failed"), build_running("b", deleting=True)]
    assert plan_scale(build_replica_set(replicas=1), pods, [], NOW).create == 1


def test_one_look_creates_no_more_than_a_burst() -> None:
    assert plan_scale(build_replica_set(replicas=9999), [], [], NOW).create == BURST_REPLICAS


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (build_running("z", node=""), build_running("a")),
        (build_running("z", phase="Pending"), build_running("a")),
        (build_running("z", ready=False), build_running("a")),
        (
            build_running("z", annotations={"controller.kubernetes.io/pod-deletion-cost": "-1"}),
            build_running("a"),
        ),
        (build_running("z", ready_for=60), build_running("a", ready_for=6000)),
        (build_running("z", restarts=3), build_running("a")),
        (build_running("a"), build_running("z")),
    ],
    ids=["unassigned", "pending", "not ready", "cheap", "young", "restarted", "by uid"],
)
def test_ranks_for_deletion(first: Object, second: Object) -> None:
    assert names(rank_for_deletion([second, first], [], NOW)) == names([first, second])


def test_the_fuller_node_loses_a_pod_first() -> None:
    here, there = build_running("z", node="full"), build_running("a", node="empty")
    others = [build_running("x", node="full"), build_running("y", node="full")]
    ranked = rank_for_deletion([there, here], [here, there, *others], NOW)
    assert names(ranked) == ["z", "a"]


def test_batches_double() -> None:
    assert list(plan_batches(10)) == [1, 2, 4, 3]
    assert list(plan_batches(0)) == []


def test_a_pod_has_the_template_and_its_owner() -> None:
    pod = build_pod(build_replica_set(), "web-x", "web-")
    assert pod["metadata"]["labels"] == {"app": "web", "v": "1"}
    assert pod["metadata"]["generateName"] == "web-"
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)


def test_counts_pods_by_what_they_are() -> None:
    pods = [
        build_running("a"),
        build_running("b", ready=False),
        build_running("c", ready_for=2),
        build_running("d", labels={"app": "web", "v": "0"}),
        build_running("e", deleting=True),
        build_running("f", phase="Succeeded"),
    ]
    status = build_status(build_replica_set(replicas=4, minReadySeconds=10), pods, NOW)
    assert status == {
        "replicas": 4,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "observedGeneration": 1,
        "terminatingReplicas": 1,
    }


def test_knows_when_the_next_pod_becomes_available() -> None:
    replica_set = build_replica_set(minReadySeconds=10)
    pods = [build_running("a", ready_for=2), build_running("b", ready_for=7)]
    assert next_availability(replica_set, pods, NOW) == timedelta(seconds=3)
    assert next_availability(replica_set, [build_running("a")], NOW) is None


def test_the_first_failure_stands_until_pods_can_be_made() -> None:
    replica_set = build_replica_set()
    first = build_failure("FailedCreate", "quota", NOW)
    replica_set["status"] = build_status(replica_set, [], NOW, failure=first)
    second = build_failure("FailedCreate", "quota again", NOW + timedelta(seconds=9))
    again = build_status(replica_set, [], NOW, failure=second)
    assert again["conditions"] == [first]
    assert "conditions" not in build_status(replica_set, [], NOW)
