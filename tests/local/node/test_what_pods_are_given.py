"""What containers are given, seen from inside real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.local.node.conftest import StartNode
from tests.local.node.test_pods_as_processes import read, shell
from tests.local.node.waiting import container_state, create_pod, has_phase, is_ready, wait_for

from kubewright.api.builtin import POD
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.local.node import Node, ProcessRuntime, detect_runtime
from kubewright.local.node.storage_eviction import EVICTED

pytestmark = pytest.mark.processes


@pytest.fixture
async def node(start_node: StartNode, tmp_path: Path) -> Node:
    detection = await detect_runtime()
    if not detection.processes:
        pytest.skip(detection.reason)
    running = await start_node(ProcessRuntime(tmp_path / "node"))
    return running.node


async def output(client: Client, node: Node, script: str, **spec: Any) -> str:
    """Run a script in a pod to its end and return what it wrote."""
    container = spec.pop("container", {})
    containers = shell(script, **container)
    await create_pod(client, "p", containers=containers, restartPolicy="Never", **spec)
    await wait_for(client, "p", has_phase("Succeeded"))
    return await read(node, "p")


async def test_too_much_memory_is_an_oom_kill(client: Client, node: Node) -> None:
    """By a control group, or by the node where it may make none."""
    containers = shell(
        "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done",
        resources={"limits": {"memory": "32Mi"}},
    )
    await create_pod(client, "p", containers=containers, restartPolicy="Never")
    pod = await wait_for(client, "p", has_phase("Failed"))
    ended = container_state(pod)["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


async def test_default_seccomp_profile_refuses_namespaces(client: Client, node: Node) -> None:
    script = "grep Seccomp: /proc/self/status; unshare -u true 2>/dev/null || echo refused"
    profile = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    text = await output(client, node, script, container=profile)
    assert text.split() == ["Seccomp:", "2", "refused"]


async def test_secret_in_memory_can_be_mounted_in_part(client: Client, node: Node) -> None:
    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "ns"},
            "stringData": {"k": "v"},
        }
    )
    mounts = [{"name": "s", "mountPath": "/k", "subPath": "k"}]
    volumes: list[Object] = [{"name": "s", "secret": {"secretName": "s"}}]
    text = await output(
        client,
        node,
        "cat /k; echo; echo $HOME",
        container={"volumeMounts": mounts},
        volumes=volumes,
    )
    assert text.split() == ["v", "/root"]


async def test_running_container_gets_more_in_place(client: Client, node: Node) -> None:
    small = {"requests": {"cpu": "10m"}, "limits": {"cpu": "100m"}}
    await create_pod(client, "p", containers=shell("exec sleep 1000", resources=small))
    await wait_for(client, "p", is_ready)
    more = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "200m"}}}]}
    await client.patch(
        POD, "p", {"spec": more}, type=PatchType.STRATEGIC, namespace="ns", subresource="resize"
    )

    def is_resized(pod: Object) -> bool:
        status = pod["status"]["containerStatuses"][0]
        return bool(status["resources"]["limits"] == {"cpu": "200m"})

    pod = await wait_for(client, "p", is_resized)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_full_volume_evicts_its_pod(client: Client, node: Node) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    script = "head -c 3000000 /dev/zero > /v/x; exec sleep 1000"
    volumes: list[Object] = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
    containers = shell(script, volumeMounts=mounts)
    await create_pod(client, "p", containers=containers, volumes=volumes)
    pod = await wait_for(client, "p", has_phase("Failed"))
    assert pod["status"]["reason"] == EVICTED
    assert pod["status"]["message"] == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '


async def test_pod_in_the_nodes_network_has_its_address(client: Client, node: Node) -> None:
    await create_pod(client, "p", containers=shell("exec sleep 1000"), hostNetwork=True)
    pod = await wait_for(client, "p", is_ready)
    assert pod["status"]["podIP"] == pod["status"]["hostIP"] == node.runtime.host_address


async def test_containers_may_share_processes(client: Client, node: Node) -> None:
    """What a container leaves behind ends with it, though the pod's namespace goes on."""
    first, second = shell("exec sleep 1000"), shell("sleep 998 & exit 0")
    containers = [*first, {**second[0], "name": "d"}]
    await create_pod(
        client, "p", containers=containers, shareProcessNamespace=True, restartPolicy="OnFailure"
    )

    def has_ended(pod: Object) -> bool:
        statuses = pod["status"].get("containerStatuses") or [{}, {}]
        return "terminated" in (statuses[-1].get("state") or {})

    await wait_for(client, "p", has_ended)
    container = node.find_container(NamespacedName("ns", "p"), "c")
    result = await node.runtime.execute(container, ["sh", "-c", "cat /proc/[0-9]*/comm"])
    assert "pause" in result.output.split()
    assert "sleep" in result.output.split()
    found = await node.runtime.execute(container, ["sh", "-c", "cat /proc/[0-9]*/cmdline"])
    assert "998" not in found.output
