"""The DaemonSet controller on an API server."""

from __future__ import annotations

import pytest
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.crashes import NAMESPACE, kill_at_each_write
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_daemon_set, build_template

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import Transport
from kubewright.testing.faults import Faults
from kubewright.testing.faulty_transport import FaultyTransport


def new_daemon_set(namespace: str) -> Object:
    obj = build_daemon_set()
    obj["metadata"] = {"name": "agent", "namespace": namespace}
    del obj["status"]
    return obj


async def update(client: Client, namespace: str, version: str) -> None:
    await client.patch(
        builtin.DAEMON_SET,
        "agent",
        {"spec": {"template": build_template(version)}},
        type=PatchType.MERGE,
        namespace=namespace,
    )


async def is_rolled_out(client: Client, namespace: str) -> bool:
    live = await client.get(builtin.DAEMON_SET, "agent", namespace=namespace)
    status = live["status"]
    names = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    return status.get("observedGeneration") == live["metadata"]["generation"] and [
        status.get(name) for name in names
    ] == [1, 1, 1]


async def test_a_daemon_set_is_updated_and_rolled_back(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    async with running("daemonset", "scheduler", "node-lifecycle"):
        await client.create(new_daemon_set(namespace))

        async def is_complete() -> bool:
            return await is_rolled_out(client, namespace)

        await eventually(is_complete)
        for version in ("2", "1"):
            await update(client, namespace, version)
            await eventually(is_complete)
        revisions = await client.list(builtin.CONTROLLER_REVISION, namespace=namespace)
        versions = {
            r["revision"]: r["data"]["spec"]["template"]["metadata"]["labels"]["v"]
            for r in revisions
        }
        assert versions == {2: "2", 3: "1"}
    assert len(kubelet.names) == 3


@pytest.mark.parametrize(
    "lagging", ["pods", "daemonsets.apps", "controllerrevisions.apps", "nodes"]
)
async def test_a_view_that_lags_behind_makes_no_second_pod(
    lagging: str,
    client: Client,
    transport: Transport,
    namespace: str,
    running: Running,
    kubelet: Kubelet,
    eventually: Eventually,
) -> None:
    faults = Faults()
    faults.lag_watches(lagging, by=0.15)

    async def is_complete() -> bool:
        return await is_rolled_out(client, namespace)

    async with (
        running("scheduler", "node-lifecycle"),
        running("daemonset", through=FaultyTransport(transport, faults)),
    ):
        kubelet.watch_availability()
        await client.create(new_daemon_set(namespace))
        await eventually(is_complete)
        await update(client, namespace, "2")
        await eventually(is_complete)
    assert kubelet.most == 1
    revisions = await client.list(builtin.CONTROLLER_REVISION, namespace=namespace)
    assert sorted(revision["revision"] for revision in revisions) == [1, 2]


@pytest.mark.timeout(300)
async def test_it_ends_in_the_same_state_wherever_it_is_killed() -> None:
    async def create(client: Client) -> None:
        await client.create(new_daemon_set(NAMESPACE))

    async def change(client: Client) -> None:
        await update(client, NAMESPACE, "2")

    async def is_complete(client: Client) -> bool:
        live = await client.get(builtin.DAEMON_SET, "agent", namespace=NAMESPACE)
        pods = await client.list(builtin.POD, namespace=NAMESPACE)
        versions = [pod["metadata"]["labels"]["v"] for pod in pods]
        wanted = live["spec"]["template"]["metadata"]["labels"]["v"]
        return versions == [wanted] and await is_rolled_out(client, NAMESPACE)

    def inspect(kubelet: Kubelet) -> None:
        assert len(kubelet.names) <= 2

    writes = await kill_at_each_write(["daemonset"], [create, change], is_complete, inspect=inspect)
    assert writes >= 6
