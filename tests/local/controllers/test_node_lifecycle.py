from __future__ import annotations

import asyncio
from datetime import timedelta

from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import NOW, build_node, build_pod

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.requests import PatchType
from kubewright.local.controllers import add_controllers
from kubewright.local.controllers.node_lifecycle.eviction import plan_eviction
from kubewright.local.controllers.node_lifecycle.heartbeat import (
    GRACE_PERIOD,
    Heartbeats,
    build_silent_conditions,
    patience,
)
from kubewright.local.controllers.node_lifecycle.labels import missing_labels
from kubewright.local.controllers.node_lifecycle.taints import plan_taints
from kubewright.local.controllers.pod import is_pod_ready
from kubewright.runtime.manager import Manager

TIME = "2026-01-01T12:00:00Z"


def identities(taints: list[Object]) -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in taints]


def test_a_ready_node_loses_the_taints_of_before_and_keeps_its_own() -> None:
    own = {"key": "dedicated", "effect": "NoSchedule"}
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert plan_taints(build_node(taints=[own, taint]), TIME) == [own]


def test_a_node_that_is_not_ready_keeps_pods_out_and_drives_them_out() -> None:
    node = build_node()
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    taints = plan_taints(node, TIME)
    assert identities(taints) == [
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
    ]
    node["spec"]["taints"] = taints
    assert plan_taints(node, "2027-01-01T00:00:00Z") == taints


def test_a_cordoned_node_under_pressure_is_tainted() -> None:
    node = build_node()
    node["spec"]["unschedulable"] = True
    node["status"]["conditions"].append({"type": "DiskPressure", "status": "True"})
    assert identities(plan_taints(node, TIME)) == [
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


def test_silence_is_measured_from_the_last_change_that_was_seen() -> None:
    beats, node = Heartbeats(), build_node()
    lease = {"spec": {"renewTime": "1"}}
    assert beats.silence(node, lease, 100.0) == timedelta()
    assert beats.silence(node, lease, 100.0 + GRACE_PERIOD.total_seconds()) == GRACE_PERIOD
    assert beats.silence(node, {"spec": {"renewTime": "2"}}, 200.0) == timedelta()


def test_of_a_silent_node_nothing_is_known() -> None:
    conditions = build_silent_conditions(build_node(), TIME)
    assert {condition["status"] for condition in conditions} == {"Unknown"}
    ready = next(c for c in conditions if c["type"] == "Ready")
    assert ready["reason"] == "NodeStatusUnknown"
    assert ready["message"] == "Kubelet stopped posting node status."
    others = {condition["reason"] for condition in conditions if condition is not ready}
    assert others == {"NodeStatusNeverUpdated"}


def test_evicts_at_once_later_or_never() -> None:
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T11:59:55Z"}
    node = build_node(taints=[taint])
    exists = {"key": "k", "operator": "Exists"}
    assert plan_eviction(build_pod(), node, NOW) == timedelta()
    assert plan_eviction(build_pod(tolerations=[exists]), node, NOW) is None
    limited = build_pod(tolerations=[{**exists, "tolerationSeconds": 8}])
    assert plan_eviction(limited, node, NOW) == timedelta(seconds=3)
    assert plan_eviction(build_pod(), build_node(), NOW) is None


def test_a_node_that_never_reported_gets_longer() -> None:
    never = build_node()
    never["status"]["conditions"] = []
    assert patience(build_node()) == timedelta(seconds=50)
    assert patience(never) == timedelta(seconds=60)


def test_older_labels_follow_the_newer_ones() -> None:
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    older = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}
    node = build_node(labels={**labels, **older})
    assert missing_labels(node) == {"beta.kubernetes.io/arch": "amd64"}
    assert missing_labels(build_node()) == {}


async def test_an_eviction_that_is_called_off_is_told(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    node = f"node-{namespace}"
    pod: Object = {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "p", "namespace": namespace}
    toleration: Object = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
    toleration = {**toleration, "tolerationSeconds": 600}
    containers = [{"name": "c", "image": "i"}]
    pod["spec"] = {"nodeName": node, "containers": containers, "tolerations": [toleration]}
    async with running("taint-eviction"):
        await client.create(pod)

        async def is_told() -> bool:
            # A taint that was gone before the controller saw it is not called off: again, then.
            for taints in ([{"key": "k", "effect": "NoExecute"}], None):
                patch = {"spec": {"taints": taints}}
                await client.patch(builtin.NODE, node, patch, type=PatchType.MERGE)
                await asyncio.sleep(0.02)
            events = await client.list(builtin.CORE_EVENT, namespace=namespace)
            notes = [event["message"] for event in events.items]
            return f"Cancelling deletion of Pod {namespace}/p" in notes

        await eventually(is_told)


async def test_the_pods_of_a_silent_node_are_not_ready(
    client: Client, namespace: str, eventually: Eventually
) -> None:
    await client.create(_fresh(build_node(f"node-{namespace}")))
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await client.create({**account, "metadata": {"name": "default", "namespace": namespace}})
    pod = build_pod("p", node=f"node-{namespace}")
    pod["metadata"] = {"name": "p", "namespace": namespace}
    created = await client.create(pod)
    await client.replace({**created, "status": pod["status"]}, subresource="status")
    manager = Manager(client, clock=_FastClock())
    add_controllers(manager, ["node-lifecycle"])
    task = asyncio.create_task(manager.run())
    await manager.wait_ready()

    async def is_told() -> bool:
        live = await client.get(builtin.POD, "p", namespace=namespace)
        events = await client.list(builtin.CORE_EVENT, namespace="default")
        node = await client.get(builtin.NODE, f"node-{namespace}")
        told = any(event["reason"] == "NodeNotReady" for event in events.items)
        unready = not is_pod_ready(live)
        return unready and told and len(node["spec"].get("taints") or ()) == 2

    await eventually(is_told)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class _FastClock(SystemClock):
    """A minute passes in half a second."""

    def monotonic(self) -> float:
        return super().monotonic() * 120

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 120)


def _fresh(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "uid"}
    return {**obj, "metadata": metadata}
