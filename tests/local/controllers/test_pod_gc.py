from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.local.controllers.conftest import Eventually
from tests.local.controllers.objects import build_node, build_pod

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.local.controllers.pod_gc import Verdict, build_pod_collector, judge_pod
from kubewright.local.controllers.pod_gc.decision import build_failure, surplus
from kubewright.local.controllers.pod_views import PodViews
from kubewright.runtime.manager import Manager

NONE = timedelta()
OUT_OF_SERVICE: Object = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}


def unready() -> Object:
    node = build_node(taints=[OUT_OF_SERVICE])
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return node


@pytest.mark.parametrize(
    ("pod", "node", "gone_for", "goes_in"),
    [
        (build_pod(), build_node(), 0, None),
        (build_pod(), None, 0, 40),
        (build_pod(), None, 45, 0),
        (build_pod(phase="Succeeded"), None, 45, 0),
        (build_pod(deleting=True), build_node(), 0, None),
        (build_pod(deleting=True), build_node(taints=[OUT_OF_SERVICE]), 0, None),
        (build_pod(deleting=True), unready(), 0, 0),
        (build_pod(), unready(), 0, None),
        (build_pod(node=""), None, 0, None),
        (build_pod(node="", deleting=True), None, 0, 15),
    ],
)
def test_pods_go_when_nobody_will_end_them(
    pod: Object, node: Object | None, gone_for: int, goes_in: int | None
) -> None:
    verdict = judge_pod(pod, node, timedelta(seconds=gone_for), timedelta(seconds=5))
    assert (verdict and verdict.after.total_seconds()) == goes_in


def test_a_pod_of_a_gone_node_fails_and_says_why() -> None:
    pod = build_pod()
    pod["metadata"] |= {"resourceVersion": "7", "generation": 1}
    verdict = judge_pod(pod, None, timedelta(seconds=60), NONE)
    assert verdict is not None
    patch = build_failure(pod, verdict, "2026-01-01T00:00:00Z")
    assert patch is not None
    assert patch["status"]["phase"] == "Failed"
    assert patch["status"]["conditions"][-1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }


def test_a_finished_pod_keeps_its_phase() -> None:
    assert build_failure(build_pod(phase="Succeeded"), Verdict(), "") is None


def test_evicted_pods_go_first_then_the_oldest() -> None:
    pods = [build_pod(name, phase="Failed", ready_for=age) for name, age in (("a", 9), ("b", 99))]
    evicted = build_pod("c", phase="Failed", ready_for=1)
    evicted["status"]["reason"] = "Evicted"
    found = surplus([*pods, evicted], threshold=1)
    assert [pod["metadata"]["name"] for pod in found] == ["c", "b"]
    assert surplus(pods, threshold=2) == []


async def test_finished_pods_are_kept_up_to_a_number(
    client: Client, namespace: str, eventually: Eventually
) -> None:
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await client.create({**account, "metadata": {"name": "default", "namespace": namespace}})
    for name in ("a", "b", "c"):
        pod: Object = {"apiVersion": "v1", "kind": "Pod"}
        pod["metadata"] = {"name": name, "namespace": namespace}
        pod["spec"] = {"containers": [{"name": "c", "image": "i"}]}
        pod = await client.create(pod)
        await client.replace({**pod, "status": {"phase": "Succeeded"}}, subresource="status")
    manager = Manager(client)
    manager.add(build_pod_collector(PodViews(), threshold=1))
    task = asyncio.create_task(manager.run())

    async def is_one() -> bool:
        return len((await client.list(builtin.POD, namespace=namespace)).items) == 1

    await eventually(is_one)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
