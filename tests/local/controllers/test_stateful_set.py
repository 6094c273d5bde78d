"""The StatefulSet controller on an API server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.crashes import NAMESPACE, kill_at_each_write
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_stateful_set, build_template

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import Transport
from kubewright.testing.faults import Faults
from kubewright.testing.faulty_transport import FaultyTransport

CLAIM_TEMPLATE: Object = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def new_stateful_set(namespace: str, replicas: int = 2, **spec: Any) -> Object:
    obj = build_stateful_set(replicas, **spec)
    obj["metadata"] = {"name": "web", "namespace": namespace}
    del obj["status"]
    return obj


async def read_status(client: Client, namespace: str) -> Object:
    live = await client.get(builtin.STATEFUL_SET, "web", namespace=namespace)
    status: Object = live["status"]
    if status.get("observedGeneration") != live["metadata"]["generation"]:
        return {}
    return status


async def patch(client: Client, namespace: str, **spec: Any) -> None:
    await client.patch(
        builtin.STATEFUL_SET, "web", {"spec": spec}, type=PatchType.MERGE, namespace=namespace
    )


async def test_pods_come_one_by_one_and_are_updated_from_the_last(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    async with running("statefulset", "scheduler", "node-lifecycle"):
        await client.create(new_stateful_set(namespace, 3))

        async def is_complete() -> bool:
            status = await read_status(client, namespace)
            counts = [status.get(f"{name}Replicas") for name in ("updated", "available", "current")]
            return counts == [3, 3, 3]

        await eventually(is_complete)
        before = (await read_status(client, namespace))["currentRevision"]
        await patch(client, namespace, template=build_template("2"))
        await eventually(is_complete)
        after = (await read_status(client, namespace))["currentRevision"]
        assert after != before
        await patch(client, namespace, template=build_template("1"))
        await eventually(is_complete)
        assert (await read_status(client, namespace))["currentRevision"] == before
        revisions = await client.list(builtin.CONTROLLER_REVISION, namespace=namespace)
        numbers = {r["metadata"]["name"]: r["revision"] for r in revisions}
        assert numbers == {before: 3, after: 2}
    assert kubelet.names == {"web-0", "web-1", "web-2"}


async def test_history_is_kept_to_its_limit(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    async with running("statefulset"):
        await client.create(new_stateful_set(namespace, 0, revisionHistoryLimit=1))
        for version in "23456":

            async def is_seen() -> bool:
                return bool((await read_status(client, namespace)).get("updateRevision"))

            await eventually(is_seen)
            await patch(client, namespace, template=build_template(version))

        async def is_truncated() -> bool:
            revisions = await client.list(builtin.CONTROLLER_REVISION, namespace=namespace)
            return sorted(revision["revision"] for revision in revisions) == [5, 6]

        await eventually(is_truncated)


async def test_a_name_that_another_revision_has_is_left(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    created = await client.create(new_stateful_set(namespace, 0))
    async with running("statefulset"):

        async def is_seen() -> bool:
            return bool((await read_status(client, namespace)).get("updateRevision"))

        await eventually(is_seen)
    name = (await read_status(client, namespace))["updateRevision"]
    await client.delete(builtin.STATEFUL_SET, "web", namespace=namespace)
    await client.delete(builtin.CONTROLLER_REVISION, name, namespace=namespace)
    taken: Object = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1}
    taken["metadata"] = {"name": name, "namespace": namespace}
    await client.create({**taken, "data": {"other": "data"}})
    assert created["metadata"]["name"] == "web"
    await client.create(new_stateful_set(namespace, 0))
    async with running("statefulset"):
        await eventually(is_seen)
    status = await read_status(client, namespace)
    assert status["updateRevision"] != name
    assert status["collisionCount"] == 1


async def test_claims_go_with_surplus_pods_where_the_policy_says_so(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    stateful_set = new_stateful_set(
        namespace,
        2,
        volumeClaimTemplates=[CLAIM_TEMPLATE],
        persistentVolumeClaimRetentionPolicy=policy,
    )

    async def claims() -> dict[str, list[str]]:
        found = await client.list(builtin.PERSISTENT_VOLUME_CLAIM, namespace=namespace)
        return {
            claim["metadata"]["name"]: [
                owner["kind"] for owner in claim["metadata"].get("ownerReferences") or ()
            ]
            for claim in found
        }

    async def unprotect() -> None:
        # Nobody runs here who would take the finalizer off.
        for name in await claims():
            await client.patch(
                builtin.PERSISTENT_VOLUME_CLAIM,
                name,
                {"metadata": {"finalizers": None}},
                type=PatchType.MERGE,
                namespace=namespace,
            )

    async with running("statefulset", "garbage-collector"):
        await client.create(stateful_set)

        async def has_pod() -> bool:
            return len(kubelet.pods) == 1

        await eventually(has_pod)
        for pod in ("web-0", "web-1"):

            async def is_there(name: str = pod) -> bool:
                try:
                    await client.get(builtin.POD, name, namespace=namespace)
                except NotFound:
                    return False
                return True

            await eventually(is_there)
            await client.patch(
                builtin.POD,
                pod,
                {
                    "status": {
                        "phase": "Running",
                        "conditions": [
                            {
                                "type": "Ready",
                                "status": "True",
                                "lastTransitionTime": "2026-01-01T00:00:00Z",
                            }
                        ],
                    }
                },
                type=PatchType.MERGE,
                namespace=namespace,
                subresource="status",
            )
        assert await claims() == {"data-web-0": ["StatefulSet"], "data-web-1": ["StatefulSet"]}
        await unprotect()
        await patch(client, namespace, replicas=1)

        async def is_scaled() -> bool:
            return await claims() == {"data-web-0": ["StatefulSet"]}

        await eventually(is_scaled)
        await client.delete(builtin.STATEFUL_SET, "web", namespace=namespace)

        async def is_gone() -> bool:
            return await claims() == {}

        await eventually(is_gone)


async def test_a_member_is_taken_over_and_a_stranger_is_not(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    template = build_template()
    for name in ("web-0", "stray"):
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
        metadata = {"name": name, "namespace": namespace, "labels": {"app": "web", "v": "1"}}
        await client.create({**pod, "metadata": metadata})
    # Before an update, what lacks the labels of its name gets them.
    async with running("statefulset", "scheduler", "node-lifecycle"):
        stateful_set = new_stateful_set(namespace, 1, updateStrategy={"type": "OnDelete"})
        await client.create(stateful_set)

        async def is_named() -> bool:
            labels = (await client.get(builtin.POD, "web-0", namespace=namespace))["metadata"]
            return bool(labels["labels"].get("apps.kubernetes.io/pod-index") == "0")

        await eventually(is_named)
    stray = await client.get(builtin.POD, "stray", namespace=namespace)
    assert "ownerReferences" not in stray["metadata"]


@pytest.mark.parametrize(
    "lagging", ["pods", "statefulsets.apps", "controllerrevisions.apps", "persistentvolumeclaims"]
)
async def test_a_view_that_lags_behind_ends_no_pod_too_many(
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
    await client.create(new_stateful_set(namespace, 3, volumeClaimTemplates=[CLAIM_TEMPLATE]))

    async def is_complete() -> bool:
        status = await read_status(client, namespace)
        counts = [status.get(f"{name}Replicas") for name in ("updated", "available", "current")]
        return counts == [3, 3, 3] and len(kubelet.pods) == 3

    volume: Object = {"apiVersion": "v1", "kind": "PersistentVolume"}
    for number in range(3):
        spec = {
            **CLAIM_TEMPLATE["spec"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/d"},
        }
        del spec["resources"]
        await client.create({**volume, "metadata": {"name": f"{namespace}-{number}"}, "spec": spec})
    async with (
        running("scheduler", "node-lifecycle", "persistentvolume-binder"),
        running("statefulset", through=FaultyTransport(transport, faults)),
    ):
        await eventually(is_complete)
        kubelet.watch_availability()
        await patch(client, namespace, template=build_template("2"))
        await eventually(is_complete)
    assert kubelet.names == {"web-0", "web-1", "web-2"}
    # One that is not ready any more is replaced; nobody else ends meanwhile.
    assert kubelet.fewest == 2
    revisions = await client.list(builtin.CONTROLLER_REVISION, namespace=namespace)
    assert sorted(revision["revision"] for revision in revisions) == [1, 2]


@pytest.mark.timeout(300)
async def test_it_ends_in_the_same_state_wherever_it_is_killed() -> None:
    async def create(client: Client) -> None:
        stateful_set = new_stateful_set(NAMESPACE, 2)
        await client.create(stateful_set)

    async def update(client: Client) -> None:
        await patch(client, NAMESPACE, template=build_template("2"), replicas=1)

    async def is_complete(client: Client) -> bool:
        live = await client.get(builtin.STATEFUL_SET, "web", namespace=NAMESPACE)
        status = await read_status(client, NAMESPACE)
        pods = await client.list(builtin.POD, namespace=NAMESPACE)
        names = [f"web-{n}" for n in range(live["spec"]["replicas"])]
        versions = {pod["metadata"]["labels"]["v"] for pod in pods}
        return (
            [pod["metadata"]["name"] for pod in pods] == names
            and versions == {live["spec"]["template"]["metadata"]["labels"]["v"]}
            and status.get("updatedReplicas") == len(names)
            and status.get("currentRevision") == status.get("updateRevision")
        )

    def inspect(kubelet: Kubelet) -> None:
        assert kubelet.names == {"web-0", "web-1"}

    writes = await kill_at_each_write(
        ["statefulset"], [create, update], is_complete, inspect=inspect
    )
    assert writes >= 8
