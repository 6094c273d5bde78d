from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.local.node.objects import NOW, build_pod

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord, Role, Running, build_records
from kubewright.local.node.pod_resize import find_lack, is_allocated, needs_restart, summarize

SMALL: Object = {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}
LARGE: Object = {"requests": {"cpu": "1500m"}, "limits": {"cpu": "1500m"}}


def pod_of(resources: Object, policies: Sequence[Object] = ()) -> Object:
    container: dict[str, Any] = {"name": "c", "image": "x", "resources": resources}
    return build_pod(containers=[container | {"resizePolicy": [*policies]}])


def running(pod: Object, given: Object) -> ContainerRecord:
    (record,) = build_records(pod)
    record.state = Running(NOW)
    record.allocated = record.actual = given
    return record


def test_container_that_has_what_it_asks_for_needs_nothing() -> None:
    assert is_allocated(running(pod_of(SMALL), SMALL))
    assert not is_allocated(running(pod_of(LARGE), SMALL))


def test_container_that_does_not_run_gets_it_at_its_next_start() -> None:
    (record,) = build_records(pod_of(LARGE))
    assert record.role is Role.MAIN
    assert is_allocated(record)


def test_only_a_changed_resource_with_the_policy_restarts() -> None:
    policies = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    assert not needs_restart(running(pod_of(LARGE, policies), SMALL))
    more = {**SMALL, "limits": {"cpu": "100m", "memory": "1Gi"}}
    assert needs_restart(running(pod_of(more, policies), SMALL))


def test_says_what_the_node_lacks() -> None:
    allocatable = {"cpu": "2", "memory": "1Gi"}
    assert find_lack(pod_of(LARGE), [pod_of(SMALL)], allocatable) == ""
    assert find_lack(pod_of(LARGE), [pod_of(LARGE)], allocatable) == (
        "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000"
    )


def test_event_tells_all_resources() -> None:
    pod = pod_of(SMALL)
    pod["metadata"]["generation"] = 2
    assert summarize(pod, "no room") == {
        "containers": [{"name": "c", "resources": SMALL}],
        "generation": 2,
        "error": "no room",
    }
