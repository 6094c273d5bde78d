from __future__ import annotations

from tests.local.node.objects import NOW_TEXT, build_pod, ended, records_of

from kubewright.local.node.containers import (
    Terminated,
    Waiting,
    build_records,
    reset_records,
)


def test_new_pod_waits() -> None:
    (record,) = build_records(build_pod())
    assert record.state == Waiting("ContainerCreating")


def test_pod_with_init_containers_waits_for_them() -> None:
    pod = build_pod(initContainers=[{"name": "i", "image": "x"}])
    assert {record.state for record in build_records(pod)} == {Waiting("PodInitializing")}


def test_what_ran_before_the_node_restarted_is_lost() -> None:
    pod = build_pod()
    state = {"running": {"startedAt": NOW_TEXT}}
    pod["status"] = {"containerStatuses": [{"name": "c", "restartCount": 2, "state": state}]}
    (record,) = build_records(pod)
    assert isinstance(record.state, Terminated)
    assert (record.state.exit_code, record.state.reason) == (137, "ContainerStatusUnknown")
    assert record.restarts == 2


def test_init_containers_run_again_in_a_new_sandbox() -> None:
    pod = build_pod(initContainers=[{"name": "i", "image": "x"}])
    state = {"terminated": {"exitCode": 0}}
    pod["status"] = {"initContainerStatuses": [{"name": "i", "state": state}]}
    init, _ = build_records(pod)
    assert init.state == Waiting("PodInitializing")
    assert not init.passed


def test_lost_pod_that_never_restarts_does_not_initialize_again() -> None:
    pod = build_pod(initContainers=[{"name": "i", "image": "x"}], restartPolicy="Never")
    running = {"running": {"startedAt": NOW_TEXT}}
    pod["status"] = {
        "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [{"name": "c", "state": running}],
    }
    init, _ = build_records(pod)
    assert init.passed


def test_reset_containers_begin_again_and_count_it() -> None:
    pod = build_pod(initContainers=[{"name": "i", "image": "x"}])
    records = records_of(pod, i=ended(0), c=ended(9))
    reset_records(records)
    init, main = records
    assert not init.passed
    assert main.state == Waiting(
        "RestartingAllContainers", "The container is removed because RestartAllContainers in place"
    )
    assert (main.restarts, main.attempt) == (1, 1)
