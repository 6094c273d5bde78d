"""The whole node with real processes, on our API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.local.node.conftest import StartNode
from tests.local.node.waiting import (
    container_state,
    create_pod,
    has_phase,
    is_ready,
    wait_for,
    wait_gone,
)

from kubewright.api.builtin import EVENT, POD
from kubewright.api.conditions import find_condition
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.local.node import Node, ProcessRuntime, detect_runtime
from kubewright.local.node.logs import LogOptions, read_log

pytestmark = pytest.mark.processes

SHELL = "debian:12"


@pytest.fixture
async def node(start_node: StartNode, tmp_path: Path) -> Node:
    detection = await detect_runtime()
    if not detection.processes:
        pytest.skip(detection.reason)
    running = await start_node(ProcessRuntime(tmp_path / "node"))
    return running.node


def shell(script: str, **more: object) -> list[Object]:
    return [{"name": "c", "image": SHELL, "command": ["sh", "-c", script], **more}]


async def read(node: Node, name: str, *, previous: bool = False) -> str:
    source = node.find_log(NamespacedName("ns", name), "c", previous=previous)
    parts = [part async for part in read_log(source.path, LogOptions(), source.is_running)]
    return b"".join(parts).decode()


async def notes(client: Client, reason: str) -> list[str]:
    """Return the notes of the Events with a reason, once there is one."""
    async with asyncio.timeout(10):
        while True:
            events = await client.list(EVENT, namespace="ns")
            found = [event["note"] for event in events.items if event["reason"] == reason]
            if found:
                return found
            await asyncio.sleep(0.05)


def restarts(count: int) -> Callable[[Object], bool]:
    def is_met(pod: Object) -> bool:
        statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
        return bool(statuses[0].get("restartCount") == count)

    return is_met


async def test_pod_runs_to_its_end(client: Client, node: Node) -> None:
    script = 'echo "$GREETING from $(hostname)"; echo why > /dev/termination-log; exit 3'
    env = [{"name": "GREETING", "value": "hello"}]
    await create_pod(client, "p", containers=shell(script, env=env), restartPolicy="Never")
    pod = await wait_for(client, "p", has_phase("Failed"))
    ended = container_state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "why\n")
    assert await read(node, "p") == "hello from p\n"


async def test_failing_container_backs_off(client: Client, node: Node) -> None:
    await create_pod(client, "p", containers=shell("echo run; exit 1"))

    def is_waiting(pod: Object) -> bool:
        return "waiting" in container_state(pod) and restarts(1)(pod)

    pod = await wait_for(client, "p", is_waiting)
    waiting = container_state(pod)["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert waiting["message"].startswith("back-off 10s restarting failed container=c pod=p_ns(")
    assert pod["status"]["phase"] == "Running"
    assert await read(node, "p", previous=True) == "run\n"


async def test_failed_liveness_probe_restarts(client: Client, node: Node) -> None:
    script = (
        "[ -e /d/x ] && exec sleep 1000; touch /d/x; "
        "trap 'exit 11' TERM; while :; do sleep 0.05; done"
    )
    probe = {
        "exec": {"command": ["sh", "-c", "[ -e /d/y ] || { touch /d/y; echo sick; exit 1; }"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
        "timeoutSeconds": 5,
    }
    mounts = [{"name": "d", "mountPath": "/d"}]
    containers = shell(script, livenessProbe=probe, volumeMounts=mounts)
    await create_pod(client, "p", containers=containers, volumes=[{"name": "d", "emptyDir": {}}])
    pod = await wait_for(client, "p", restarts(1))
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 11
    assert await notes(client, "Unhealthy") == ["Liveness probe failed: sick\n"]
    assert await notes(client, "Killing") == [
        "Container c failed liveness probe, will be restarted"
    ]


async def test_readiness_follows_a_tcp_probe(client: Client, node: Node) -> None:
    containers = [
        {
            "name": "c",
            "image": "memcached:1.6.9",
            "readinessProbe": {"tcpSocket": {"port": "mc"}, "periodSeconds": 1},
            "ports": [{"containerPort": 11211, "name": "mc"}],
            "securityContext": {"runAsUser": 11211, "runAsNonRoot": True},
        }
    ]
    await create_pod(client, "p", containers=containers)
    await wait_for(client, "p", is_ready)
    (note,) = await notes(client, "ImageServed")
    assert note.startswith("recipe memcached serves Debian's 1.6.")


async def test_container_that_ignores_sigterm_is_killed(client: Client, node: Node) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    pod = await create_pod(client, "p", containers=shell(script), terminationGracePeriodSeconds=1)
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    await client.replace(pod)
    await wait_for(client, "p", is_ready)
    await client.delete(POD, "p", namespace="ns")
    held = await wait_for(client, "p", has_phase("Failed"))
    assert container_state(held)["terminated"]["exitCode"] == 137
    held["metadata"]["finalizers"] = []
    await client.replace(held)
    await wait_gone(client, "p")


async def test_forced_deletion_ends_the_processes(client: Client, node: Node) -> None:
    await create_pod(client, "p", containers=shell("exec sleep 1000"))
    await wait_for(client, "p", is_ready)
    await client.delete(POD, "p", namespace="ns", grace_period_seconds=0)
    await wait_gone(client, "p")
    async with asyncio.timeout(10):
        while True:
            if not node.pods():
                return
            await asyncio.sleep(0.05)


async def test_config_map_is_a_volume(client: Client, node: Node) -> None:
    metadata = {"name": "m", "namespace": "ns"}
    await client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "value"}}
    )
    containers = shell("cat /v/k", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    volumes = [{"name": "v", "configMap": {"name": "m"}}]
    await create_pod(client, "p", containers=containers, volumes=volumes, restartPolicy="Never")
    await wait_for(client, "p", has_phase("Succeeded"))
    assert await read(node, "p") == "value"


async def test_unsupported_volume_is_told(client: Client, node: Node) -> None:
    volumes = [{"name": "v", "nfs": {"server": "x", "path": "/"}}]
    await create_pod(client, "p", volumes=volumes)
    (note,) = await notes(client, "FailedMount")
    assert note.startswith(
        'MountVolume.SetUp failed for volume "v" : local nodes have no nfs volumes'
    )


async def test_command_that_does_not_exist_is_a_start_error(client: Client, node: Node) -> None:
    containers = [{"name": "c", "image": SHELL, "command": ["/no/such/command"]}]
    await create_pod(client, "p", containers=containers, restartPolicy="Never")
    pod = await wait_for(client, "p", has_phase("Failed"))
    ended = container_state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert ended["message"] == (
        'exec: "/no/such/command": stat /no/such/command: no such file or directory'
    )


async def test_image_without_a_recipe_backs_off(client: Client, node: Node) -> None:
    await create_pod(client, "p", containers=[{"name": "c", "image": "example.com/absent:1"}])

    def is_backing_off(pod: Object) -> bool:
        waiting = container_state(pod).get("waiting") or {}
        return bool(waiting.get("reason") == "ImagePullBackOff")

    pod = await wait_for(client, "p", is_backing_off)
    assert "no recipe makes image" in container_state(pod)["waiting"]["message"]


async def test_ephemeral_container_sees_the_processes_of_its_target(
    client: Client, node: Node
) -> None:
    await create_pod(client, "p", containers=shell("exec sleep 4711"))
    pod = await wait_for(client, "p", is_ready)
    (debug,) = shell("tr '\\0' ' ' < /proc/1/cmdline", targetContainerName="c")
    debug["name"] = "dbg"
    pod["spec"]["ephemeralContainers"] = [debug]
    await client.replace(pod, subresource="ephemeralcontainers")

    def has_ended(pod: Object) -> bool:
        statuses = pod["status"].get("ephemeralContainerStatuses") or [{}]
        return "terminated" in (statuses[0].get("state") or {})

    pod = await wait_for(client, "p", has_ended)
    assert is_ready(pod)
    source = node.find_log(NamespacedName("ns", "p"), "dbg", previous=False)
    parts = [part async for part in read_log(source.path, LogOptions(), source.is_running)]
    assert b"".join(parts) == b"sleep 4711 "


async def test_rule_starts_all_containers_anew_in_the_same_sandbox(
    client: Client, node: Node
) -> None:
    mounts = [{"name": "d", "mountPath": "/d"}]
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    script = "[ -e /d/x ] && exec sleep 1000; touch /d/x; exit 42"
    own = {"restartPolicy": "Never", "restartPolicyRules": rules}
    containers = [
        *shell(script, volumeMounts=mounts, **own),
        {"name": "d", "image": SHELL, "command": ["sleep", "1000"]},
    ]
    init = [{"name": "i", "image": SHELL, "command": ["true"]}]
    volumes = [{"name": "d", "emptyDir": {}}]
    await create_pod(
        client,
        "p",
        containers=containers,
        initContainers=init,
        volumes=volumes,
        restartPolicy="Never",
    )

    def is_again_ready(pod: Object) -> bool:
        return restarts(1)(pod) and is_ready(pod)

    pod = await wait_for(client, "p", is_again_ready)
    statuses = [*pod["status"]["initContainerStatuses"], *pod["status"]["containerStatuses"]]
    assert [status["restartCount"] for status in statuses] == [1, 1, 1]
    assert {status["lastState"]["terminated"]["reason"] for status in statuses} == {
        "RestartingAllContainers"
    }
    condition = find_condition(pod["status"]["conditions"], "AllContainersRestarting")
    assert condition is not None
    assert condition["status"] == "False"


async def test_sidecar_is_stopped_when_the_containers_have_ended(
    client: Client, node: Node
) -> None:
    mounts = [{"name": "d", "mountPath": "/d"}]
    side = "trap 'echo side >> /d/order; exit 0' TERM; while :; do sleep 0.05; done"
    main = "trap 'sleep 1; echo main >> /d/order; exit 0' TERM; while :; do sleep 0.05; done"
    sidecar = {**shell(side, volumeMounts=mounts)[0], "name": "side", "restartPolicy": "Always"}
    last = "[ -e /d/order ] && cat /d/order; true"
    read = f"trap 'sleep 1; {last}; exit 0' TERM; while :; do sleep 0.05; done"
    reader = {**shell(read, volumeMounts=mounts)[0], "name": "reader", "restartPolicy": "Always"}
    volumes = [{"name": "d", "emptyDir": {}}]
    pod = await create_pod(
        client,
        "p",
        containers=shell(main, volumeMounts=mounts),
        initContainers=[reader, sidecar],
        volumes=volumes,
        terminationGracePeriodSeconds=20,
    )
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    await client.replace(pod)
    await wait_for(client, "p", is_ready)
    await client.delete(POD, "p", namespace="ns")
    held = await wait_for(client, "p", has_phase("Succeeded"))
    source = node.find_log(NamespacedName("ns", "p"), "reader", previous=False)
    parts = [part async for part in read_log(source.path, LogOptions(), source.is_running)]
    assert b"".join(parts) == b"main\nside\n"
    held["metadata"]["finalizers"] = []
    await client.replace(held)
    await wait_gone(client, "p")


async def test_every_command_in_a_container_tells_its_own_exit_code(
    client: Client, node: Node
) -> None:
    """Who starts a command and the command itself report apart, and either may be first."""
    await create_pod(client, "p", containers=shell("exec sleep 1000"))
    await wait_for(client, "p", is_ready)
    container = node.find_container(NamespacedName("ns", "p"), "c")

    async def execute(code: int) -> tuple[int, str]:
        result = await node.runtime.execute(container, ["sh", "-c", f"echo {code}; exit {code}"])
        return result.exit_code, result.output

    codes = [number % 100 for number in range(60)]
    results = await asyncio.gather(*map(execute, codes))
    assert results == [(code, f"{code}\n") for code in codes]
