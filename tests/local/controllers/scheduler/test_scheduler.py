"""The scheduler on an API server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.objects import build_node
from tests.local.controllers.scheduler.nodes import container

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.local.controllers.pod import find_pod_condition


@pytest.fixture(autouse=True)
async def account(client: Client, namespace: str) -> None:
    # The real server admits pods only where their account is.
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await client.create({**account, "metadata": {"name": "default", "namespace": namespace}})


async def add_node(client: Client, name: str, **options: Any) -> None:
    node = build_node(name, **options)
    del node["metadata"]["uid"]
    await client.create(node)
    # Admission taints new nodes until a controller has seen them ready.
    patch: Object = {"spec": {"taints": None}}
    await client.patch(builtin.NODE, name, patch, type=PatchType.MERGE)


async def add_pod(client: Client, namespace: str, name: str, **spec: Any) -> Object:
    pod: Object = {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": name, "namespace": namespace, "labels": {"app": "web"}}
    pod["spec"] = {"terminationGracePeriodSeconds": 0, "containers": container(cpu="1"), **spec}
    return await client.create(pod)


async def read_nodes(client: Client, namespace: str) -> dict[str, str]:
    """Return the node of each pod that has one."""
    pods = (await client.list(builtin.POD, namespace=namespace)).items
    found = {pod["metadata"]["name"]: pod["spec"].get("nodeName") or "" for pod in pods}
    return {name: node for name, node in found.items() if node}


async def add_priority(client: Client, name: str, value: int) -> None:
    await client.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
    )


async def test_never_gives_the_same_room_away_twice(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    for name in ("a", "b"):
        await add_node(client, name, cpu="20")
    for number in range(60):
        await add_pod(client, namespace, f"p{number}")

    async def are_full() -> bool:
        return len(await read_nodes(client, namespace)) == 40

    async with running("scheduler"):
        await eventually(are_full)
        assert Counter((await read_nodes(client, namespace)).values()) == {"a": 20, "b": 20}
        await client.delete(builtin.POD, "p0", namespace=namespace)

        async def is_replaced() -> bool:
            return len(await read_nodes(client, namespace)) == 40

        await eventually(is_replaced)


async def test_the_most_important_pods_are_placed_first(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    await add_priority(client, "high", 1000)
    await add_node(client, "a", cpu="3")
    for number in range(6):
        await add_pod(client, namespace, f"low{number}", preemptionPolicy="Never")
    for number in range(3):
        await add_pod(client, namespace, f"high{number}", priorityClassName="high")

    async def is_full() -> bool:
        return len(await read_nodes(client, namespace)) == 3

    async with running("scheduler"):
        await eventually(is_full)
    assert set(await read_nodes(client, namespace)) == {"high0", "high1", "high2"}


async def test_a_preemption_that_was_only_announced_is_carried_out(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    await add_priority(client, "high", 1000)
    await add_node(client, "a", cpu="1")
    await add_pod(client, namespace, "low", nodeName="a")
    pod = await add_pod(client, namespace, "high", priorityClassName="high")
    # As a scheduler leaves it that died between its report and the eviction.
    message = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "found a potential placement for pod on node a, preempting 1 victims"
    )
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"conditions": [{**told, "message": message}], "nominatedNodeName": "a"}
    await client.replace({**pod, "status": {**pod["status"], **status}}, subresource="status")

    async def is_placed() -> bool:
        return await read_nodes(client, namespace) == {"high": "a"}

    async with running("scheduler"):
        await eventually(is_placed)


async def test_a_claim_is_told_its_node_and_the_pod_follows_when_it_is_bound(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    await add_node(client, "a")
    storage_class: Object = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    storage_class["metadata"] = {"name": "late"}
    mode = {"provisioner": "example.com/p", "volumeBindingMode": "WaitForFirstConsumer"}
    await client.create({**storage_class, **mode})
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim["metadata"] = {"name": "data", "namespace": namespace}
    size = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    claim["spec"] = {**size, "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(claim)
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    await add_pod(client, namespace, "p", volumes=[volume])

    async def is_expected() -> bool:
        live = await client.get(builtin.PERSISTENT_VOLUME_CLAIM, "data", namespace=namespace)
        pod = await client.get(builtin.POD, "p", namespace=namespace)
        annotations = live["metadata"].get("annotations") or {}
        selected = annotations.get("volume.kubernetes.io/selected-node")
        return selected == "a" and pod["status"].get("nominatedNodeName") == "a"

    async with running("scheduler"):
        await eventually(is_expected)
        assert await read_nodes(client, namespace) == {}
        await bind_claim(client, namespace, size)

        async def is_placed() -> bool:
            return await read_nodes(client, namespace) == {"p": "a"}

        await eventually(is_placed)


async def bind_claim(client: Client, namespace: str, size: Object) -> None:
    """Make a volume for the claim, and say that they are bound."""
    capacity = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/none"}}
    volume: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {**size, **capacity}}
    await client.create({**volume, "metadata": {"name": f"v-{namespace}"}})
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    patch: Object = {
        "metadata": {"annotations": annotations},
        "spec": {"volumeName": f"v-{namespace}"},
    }
    await client.patch(
        builtin.PERSISTENT_VOLUME_CLAIM, "data", patch, type=PatchType.MERGE, namespace=namespace
    )


async def test_a_waiting_pod_is_told_why_once(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    await add_pod(client, namespace, "p")

    async def says(message: str) -> bool:
        pod = await client.get(builtin.POD, "p", namespace=namespace)
        condition = find_pod_condition(pod, "PodScheduled") or {}
        return str(condition.get("message") or "").startswith(message)

    async def has_no_nodes() -> bool:
        return await says("no nodes available to schedule pods")

    async def is_too_large() -> bool:
        return await says("0/1 nodes are available: 1 Insufficient cpu.")

    async with running("scheduler"):
        await eventually(has_no_nodes)
        await add_node(client, "a", cpu="500m")
        await eventually(is_too_large)
        before = await client.get(builtin.POD, "p", namespace=namespace)
        labelled: Object = {"metadata": {"labels": {"x": "y"}}}
        await client.patch(builtin.NODE, "a", labelled, type=PatchType.MERGE)
        await add_pod(client, namespace, "small", containers=container(cpu="100m"))

        async def is_placed() -> bool:
            return await read_nodes(client, namespace) == {"small": "a"}

        await eventually(is_placed)
        after = await client.get(builtin.POD, "p", namespace=namespace)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
