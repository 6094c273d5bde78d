from __future__ import annotations

import asyncio
import json
import signal
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
    wait_until,
)

from kubewright.api.builtin import EVENT, LEASE, NODE, POD
from kubewright.api.conditions import is_condition_true
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.local.node import RuntimeLost, SimulatedRuntime
from kubewright.local.node.pod_worker import PodWorker
from kubewright.local.node.runtime import RunningContainer
from kubewright.local.node.status_publisher import StatusPublisher


async def test_registers_and_renews_its_lease(client: Client, start_node: StartNode) -> None:
    await start_node(SimulatedRuntime(pod_cidr="10.245.1.0/24"))
    node = await client.get(NODE, "node-1")
    assert is_condition_true(node, "Ready")
    assert node["spec"]["podCIDR"] == "10.245.1.0/24"
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] > 0
    lease = await client.get(LEASE, "node-1", namespace="kube-node-lease")
    assert lease["spec"]["holderIdentity"] == "node-1"
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_pod_becomes_ready_with_an_address_of_its_own(
    client: Client, start_node: StartNode
) -> None:
    await start_node(SimulatedRuntime())
    for name in ("a", "b"):
        await create_pod(client, name)
    pods = [await wait_for(client, name, is_ready) for name in ("a", "b")]
    addresses = {pod["status"]["podIP"] for pod in pods}
    assert len(addresses) == 2
    assert pods[0]["status"]["phase"] == "Running"
    assert pods[0]["status"]["containerStatuses"][0]["started"] is True


async def test_pod_that_is_to_end_ends(client: Client, start_node: StartNode) -> None:
    await start_node(SimulatedRuntime(run_seconds=0.1))
    init = [{"name": "i", "image": "busybox:1.35"}]
    await create_pod(client, "p", restartPolicy="Never", initContainers=init)
    pod = await wait_for(client, "p", has_phase("Succeeded"))
    assert container_state(pod)["terminated"]["reason"] == "Completed"


async def test_deleted_pod_ends_and_is_removed(client: Client, start_node: StartNode) -> None:
    running = await start_node(SimulatedRuntime())
    await create_pod(client, "p")
    await wait_for(client, "p", is_ready)
    await client.delete(POD, "p", namespace="ns")
    await wait_gone(client, "p")
    events = await client.list(EVENT, namespace="ns")
    assert "Stopping container c" in {event.get("note") for event in events.items}
    await wait_until(lambda: not running.node.pods())


async def test_the_last_that_is_seen_of_a_deleted_pod_is_how_it_ended(
    client: Client, start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = StatusPublisher.publish

    async def write_slowly(publisher: StatusPublisher, status: Object) -> bool:
        taken = await write(publisher, status)
        await asyncio.sleep(0.3)  # the container ends while a status is written
        return taken

    monkeypatch.setattr(StatusPublisher, "publish", write_slowly)
    await start_node(SimulatedRuntime())
    await create_pod(client, "p")
    pod = await wait_for(client, "p", is_ready)
    version = pod["metadata"]["resourceVersion"]
    async with client.watch(POD, namespace="ns", resource_version=version) as events:
        await client.delete(POD, "p", namespace="ns")
        last = await anext(event async for event in events if event.type == "DELETED")
    ended = json.loads(last.raw)
    assert ended["status"]["phase"] == "Succeeded"
    assert not is_ready(ended)
    assert "terminated" in container_state(ended)


async def test_pod_held_by_a_finalizer_reports_its_end(
    client: Client, start_node: StartNode
) -> None:
    await start_node(SimulatedRuntime())
    pod = await create_pod(client, "p")
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    await client.replace(pod)
    await wait_for(client, "p", is_ready)
    await client.delete(POD, "p", namespace="ns")
    held = await wait_for(client, "p", has_phase("Succeeded"))
    held["metadata"]["finalizers"] = []
    await client.replace(held)
    await wait_gone(client, "p")


async def test_missing_config_map_is_waited_for(client: Client, start_node: StartNode) -> None:
    await start_node(SimulatedRuntime())
    value = {"configMapKeyRef": {"name": "late", "key": "k"}}
    env = [{"name": "K", "valueFrom": value}]
    await create_pod(client, "p", containers=[{"name": "c", "image": "x:1", "env": env}])

    def is_refused(pod: dict[str, object]) -> bool:
        waiting = container_state(pod).get("waiting") or {}
        return bool(waiting.get("reason") == "CreateContainerConfigError")

    pod = await wait_for(client, "p", is_refused)
    assert container_state(pod)["waiting"]["message"] == 'configmap "late" not found'
    metadata = {"name": "late", "namespace": "ns"}
    await client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
    )
    await wait_for(client, "p", is_ready)


async def test_restarted_node_takes_its_pods_up_again(
    client: Client, start_node: StartNode
) -> None:
    first = await start_node(SimulatedRuntime())
    await create_pod(client, "p")
    await wait_for(client, "p", is_ready)
    await first.stop()
    await start_node(SimulatedRuntime(pod_cidr="10.245.2.0/24"))
    pod = await wait_for(
        client, "p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    last = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["reason"] == "ContainerStatusUnknown"
    assert pod["status"]["podIPs"] == [{"ip": pod["status"]["podIP"]}]
    assert pod["status"]["hostIPs"] == [{"ip": "10.245.2.1"}]


async def test_simulated_pods_go_on_when_their_node_is_started_again(
    client: Client, start_node: StartNode
) -> None:
    first = await start_node(SimulatedRuntime())
    await create_pod(client, "p")
    before = await wait_for(client, "p", is_ready)
    first.task.cancel()
    await asyncio.gather(first.task, return_exceptions=True)
    await start_node(SimulatedRuntime())
    await client.patch(
        POD,
        "p",
        {"spec": {"activeDeadlineSeconds": 3600}},
        type=PatchType.MERGE,
        namespace="ns",
    )
    generation = before["metadata"]["generation"] + 1

    def is_seen(pod: Object) -> bool:
        return bool(pod["status"].get("observedGeneration") == generation)

    after = await wait_for(client, "p", is_seen)
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert is_ready(after)


async def test_overwritten_status_is_written_again(client: Client, start_node: StartNode) -> None:
    await start_node(SimulatedRuntime())
    await create_pod(client, "p")
    pod = await wait_for(client, "p", is_ready)
    for condition in pod["status"]["conditions"]:
        condition["status"] = "False"
    await client.replace(pod, subresource="status")
    await wait_for(client, "p", is_ready)


async def test_finished_pod_rests(
    client: Client, start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0
    sync = PodWorker._sync

    async def count(worker: PodWorker) -> bool:
        nonlocal rounds
        rounds += 1
        return await sync(worker)

    monkeypatch.setattr(PodWorker, "_sync", count)
    monkeypatch.setattr("kubewright.local.node.pod_worker.REFRESH_SECONDS", 0.1)
    metadata = {"name": "m", "namespace": "ns"}
    await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await start_node(SimulatedRuntime(run_seconds=0.1))
    volumes = [{"name": "v", "configMap": {"name": "m"}}]
    await create_pod(client, "p", restartPolicy="Never", activeDeadlineSeconds=1, volumes=volumes)
    await wait_for(client, "p", has_phase("Succeeded"))
    await asyncio.sleep(1.2)
    pod = await wait_for(client, "p", has_phase("Succeeded"))
    assert "reason" not in pod["status"]
    assert rounds < 30


async def test_changed_config_map_reaches_a_running_pod(
    client: Client, start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubewright.local.node.pod_worker.REFRESH_SECONDS", 0.1)
    metadata = {"name": "m", "namespace": "ns"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await client.create({**config_map, "data": {"k": "1"}})
    await start_node(SimulatedRuntime())
    volumes = [{"name": "v", "configMap": {"name": "m"}}]
    pod = await create_pod(client, "p", volumes=volumes)
    await wait_for(client, "p", is_ready)
    file = tmp_path / "node/pods" / pod["metadata"]["uid"] / "volumes/v/k"
    assert file.read_text() == "1"
    await client.replace({**config_map, "data": {"k": "2"}})
    async with asyncio.timeout(10):
        while True:
            if file.read_text() == "2":
                return
            await asyncio.sleep(0.05)


async def test_host_pids_are_refused_by_name(client: Client, start_node: StartNode) -> None:
    await start_node(SimulatedRuntime())
    await create_pod(client, "p", hostPID=True)
    async with asyncio.timeout(10):
        while True:
            events = await client.list(EVENT, namespace="ns")
            if events.items:
                break
            await asyncio.sleep(0.05)
    assert events.items[0]["note"] == (
        "Failed to create pod sandbox: local nodes do not give pods hostPID"
    )


async def test_node_whose_runtime_is_lost_ends(client: Client, start_node: StartNode) -> None:
    runtime = SimulatedRuntime()
    running = await start_node(runtime)
    await runtime.stop()
    with pytest.raises(RuntimeLost, match="start the node again"):
        await running.task


async def test_ephemeral_container_starts_in_a_running_pod(
    client: Client, start_node: StartNode
) -> None:
    await start_node(SimulatedRuntime())
    await create_pod(client, "p")
    pod = await wait_for(client, "p", is_ready)
    pod["spec"]["ephemeralContainers"] = [{"name": "dbg", "image": "busybox:1.35"}]
    await client.replace(pod, subresource="ephemeralcontainers")

    def runs(pod: Object) -> bool:
        statuses = pod["status"].get("ephemeralContainerStatuses") or [{}]
        return "running" in (statuses[0].get("state") or {})

    pod = await wait_for(client, "p", runs)
    assert is_ready(pod)
    events = await client.list(EVENT, namespace="ns")
    paths = {event["regarding"].get("fieldPath") for event in events.items}
    assert "spec.ephemeralContainers{dbg}" in paths


async def test_pod_deleted_before_it_began_fails_with_lost_containers(
    client: Client, start_node: StartNode
) -> None:
    await start_node(SimulatedRuntime())
    env = [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]
    pod = await create_pod(client, "p", containers=[{"name": "c", "image": "x:1", "env": env}])
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    await client.replace(pod)

    def waits(pod: Object) -> bool:
        return "waiting" in container_state(pod)

    await wait_for(client, "p", waits)
    await client.delete(POD, "p", namespace="ns")
    held = await wait_for(client, "p", has_phase("Failed"))
    ended = container_state(held)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    assert ended["message"] == "The container could not be located when the pod was terminated"


async def test_shorter_grace_of_a_second_deletion_counts(
    client: Client, start_node: StartNode
) -> None:
    runtime = StubbornRuntime()
    await start_node(runtime)
    await create_pod(client, "p", terminationGracePeriodSeconds=600)
    await wait_for(client, "p", is_ready)
    await client.delete(POD, "p", namespace="ns")
    await wait_until(lambda: signal.SIGTERM in runtime.signals)
    await client.delete(POD, "p", namespace="ns", grace_period_seconds=1)
    await wait_gone(client, "p")
    assert runtime.signals[-1] == signal.SIGKILL


class StubbornRuntime(SimulatedRuntime):
    """Its containers end only when they are killed."""

    def __init__(self) -> None:
        super().__init__()
        self.signals: list[int] = []

    def signal(self, container: RunningContainer, number: int) -> None:
        """Take note of a signal."""
        self.signals.append(number)
        if number == signal.SIGKILL:
            super().signal(container, number)


async def test_image_of_a_registry_that_cannot_be_is_not_pulled(
    client: Client, start_node: StartNode
) -> None:
    await start_node(SimulatedRuntime())
    containers = [{"name": "c", "image": "registry.invalid/absent:1"}]
    await create_pod(client, "p", containers=containers)

    def is_backing_off(pod: Object) -> bool:
        waiting = container_state(pod).get("waiting") or {}
        return bool(waiting.get("reason") == "ImagePullBackOff")

    await wait_for(client, "p", is_backing_off)
