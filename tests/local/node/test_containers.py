from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.local.node.objects import NOW, NOW_TEXT, RUNNING, build_pod, ended, records_of

from kubewright.local.node.containers import (
    Terminated,
    Waiting,
    build_records,
    reset_records,
)
from kubewright.local.node.image.image import Image
from kubewright.local.node.runtime import (
    ContainerConfig,
    Exit,
    RunningContainer,
    SecuritySettings,
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


def held(name: str, attempt: int, ended: Exit | None = None) -> RunningContainer:
    """Build a container that an earlier agent has left; call it with a running event loop."""
    config = ContainerConfig(
        name=name,
        attempt=attempt,
        image=Image("x", "y"),
        argv=["x"],
        env={},
        workdir="/",
        security=SecuritySettings(),
        log=Path("/nowhere"),
    )
    exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
    if ended is not None:
        exited.set_result(ended)
    return RunningContainer(f"{name}{attempt}", config, NOW, exited)


async def test_container_that_is_taken_over_runs_on_and_stays_ready() -> None:
    probe: dict[str, Any] = {"exec": {"command": ["true"]}}
    containers = [{"name": "c", "image": "x", "readinessProbe": probe, "startupProbe": probe}]
    pod = build_pod(containers=containers, initContainers=[{"name": "i", "image": "x"}])
    told = {"name": "c", "containerID": "kubewright://c2", "ready": True, "started": True}
    ended_init = {"terminated": {"exitCode": 0, "containerID": "kubewright://i0"}}
    pod["status"] = {
        "containerStatuses": [{**told, "restartCount": 2, "state": {"running": {}}}],
        "initContainerStatuses": [{"name": "i", "state": ended_init}],
    }
    init, main = build_records(pod, [held("i", 0), held("c", 2)])
    assert (main.state, main.restarts, main.last) == (RUNNING, 2, None)
    assert main.is_ready
    assert init.passed
    assert init.container is None


async def test_run_that_the_api_has_not_heard_of_is_taken_over_with_the_one_before() -> None:
    pod = build_pod()
    told = {"name": "c", "containerID": "kubewright://c0", "ready": True, "restartCount": 0}
    pod["status"] = {"containerStatuses": [{**told, "state": {"running": {}}}]}
    (record,) = build_records(pod, [held("c", 0, Exit(4, NOW)), held("c", 1)])
    assert record.is_running
    assert (record.restarts, record.container_id) == (1, "kubewright://c1")
    assert record.last is not None
    assert (record.last.exit_code, record.last.container_id) == (4, "kubewright://c0")


async def test_end_that_the_api_knows_is_not_taken_over_again() -> None:
    pod = build_pod()
    ended = {"terminated": {"exitCode": 4, "containerID": "kubewright://c0"}}
    pod["status"] = {"containerStatuses": [{"name": "c", "lastState": ended, "restartCount": 0}]}
    (record,) = build_records(pod, [held("c", 0, Exit(4, NOW))])
    assert record.container is None
    assert isinstance(record.state, Terminated)


async def test_what_ran_and_was_not_left_in_its_sandbox_is_lost() -> None:
    pod = build_pod()
    pod["status"] = {
        "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": NOW_TEXT}}}]
    }
    (record,) = build_records(pod, [])
    assert isinstance(record.state, Terminated)
    assert record.state.reason == "ContainerStatusUnknown"
