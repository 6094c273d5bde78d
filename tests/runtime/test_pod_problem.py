"""What keeps pods from running, told so that it changes only with its cause."""

from __future__ import annotations

from typing import Any

from kubewright.api.resource import Object
from kubewright.runtime.pod_problem import build_pods_condition, find_pod_problems


def build_pod(name: str = "a", **state: Any) -> Object:
    container = {"name": "app", "image": "shop:1", **state}
    return {"metadata": {"name": name}, "status": {"containerStatuses": [container]}}


def waiting(reason: str, message: str = "") -> Any:
    return {"waiting": {"reason": reason, "message": message}}


def test_pods_that_run_or_start_have_no_problem() -> None:
    pods = [
        build_pod(state={"running": {}}),
        build_pod(state=waiting("ContainerCreating")),
        build_pod(state=waiting("PodInitializing")),
        {"metadata": {"name": "new"}},
    ]

    assert find_pod_problems(pods) == []
    condition = build_pods_condition(pods)
    assert (condition.type, condition.status) == ("PodsHealthy", "True")


def test_an_image_that_cannot_be_pulled_is_told_the_same_at_every_try() -> None:
    [first] = find_pod_problems([build_pod(state=waiting("ErrImagePull", "no such host"))])
    [second] = find_pod_problems([build_pod(state=waiting("ImagePullBackOff", "Back-off 20s"))])

    assert first == second
    assert first.message == "container app of pod a: its image shop:1 cannot be pulled"


def test_a_container_that_keeps_ending_is_told_with_its_exit_code() -> None:
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pod = build_pod(state=waiting("CrashLoopBackOff", "back-off 10s"), lastState=ended)

    [problem] = find_pod_problems([pod])

    assert problem.reason == "CrashLoopBackOff"
    assert problem.message == "container app of pod a keeps ending: OOMKilled, exit code 137"


def test_what_the_kubelet_says_of_a_container_is_passed_on() -> None:
    text = 'secret "keys" not found'
    [problem] = find_pod_problems([build_pod(state=waiting("CreateContainerConfigError", text))])

    assert problem.reason == "CreateContainerConfigError"
    assert problem.message == f"container app of pod a: {text}"


def test_a_pod_that_no_node_takes_is_told() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    }
    pod = {"metadata": {"name": "a"}, "status": {"conditions": [condition]}}

    [problem] = find_pod_problems([pod])

    assert problem.reason == "Unschedulable"
    assert "1 Insufficient cpu" in problem.message


def test_init_containers_count_and_pods_that_end_do_not() -> None:
    broken = {"name": "init", "image": "x", "state": waiting("InvalidImageName", "no name")}
    status = {"initContainerStatuses": [broken]}
    ending = {"metadata": {"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    found = find_pod_problems([{**ending, "status": status}])
    assert found == []
    [problem] = find_pod_problems([{"metadata": {"name": "a"}, "status": status}])
    assert problem.reason == "InvalidImageName"


def test_the_condition_tells_the_first_pod_by_name_and_how_many_more() -> None:
    pods = [build_pod(name, state=waiting("ImagePullBackOff")) for name in ("c", "a", "b")]

    condition = build_pods_condition(pods)

    assert (condition.status, condition.reason) == ("False", "ImagePullBackOff")
    assert condition.message == (
        "container app of pod a: its image shop:1 cannot be pulled; and 2 more"
    )
