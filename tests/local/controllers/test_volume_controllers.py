"""The controllers of volumes and claims on an API server."""

from __future__ import annotations

import pytest
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.crashes import NAMESPACE, kill_at_each_write
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_claim, build_volume

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import Transport
from kubewright.testing.faults import Faults
from kubewright.testing.faulty_transport import FaultyTransport

BINDER = ("persistentvolume-binder", "persistentvolumeclaim-protection")
ALL = (*BINDER, "persistentvolume-protection")


def new(obj: Object, namespace: str = "") -> Object:
    name = obj["metadata"]["name"]
    obj["metadata"] = {"name": name, **({"namespace": namespace} if namespace else {})}
    del obj["status"]
    return obj


async def phase(client: Client, name: str, namespace: str | None = None) -> str:
    kind = builtin.PERSISTENT_VOLUME_CLAIM if namespace else builtin.PERSISTENT_VOLUME
    try:
        live = await client.get(kind, name, namespace=namespace)
    except NotFound:
        return "gone"
    return str(live["status"].get("phase"))


async def test_two_claims_never_share_a_volume(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    async with running(*ALL):
        await client.create(new(build_volume(namespace, storageClassName=namespace)))
        for name in "abcd":
            await client.create(new(build_claim(name, storageClassName=namespace), namespace))

        async def phases() -> list[str]:
            return sorted([await phase(client, name, namespace) for name in "abcd"])

        async def is_settled() -> bool:
            return "Bound" in await phases()

        await eventually(is_settled)
        assert await phases() == ["Bound", "Pending", "Pending", "Pending"]
        await client.create(new(build_volume(f"{namespace}-2", storageClassName=namespace)))

        async def are_two_bound() -> bool:
            return (await phases()).count("Bound") == 2

        await eventually(are_two_bound)


async def test_what_is_used_stays_until_it_is_not(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["metadata"]["namespace"] = namespace
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    pod["spec"] = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    async with running(*ALL, "scheduler", "node-lifecycle"):
        await client.create(new(build_volume(namespace, storageClassName=namespace)))
        await client.create(new(build_claim(storageClassName=namespace), namespace))
        await client.create(pod)

        async def is_used() -> bool:
            live = await client.get(builtin.PERSISTENT_VOLUME_CLAIM, "data", namespace=namespace)
            conditions = live["status"].get("conditions") or ()
            return kubelet.ready() == 1 and any(c["reason"] == "PodUsingPVC" for c in conditions)

        await eventually(is_used)
        await client.delete(builtin.PERSISTENT_VOLUME_CLAIM, "data", namespace=namespace)
        await client.delete(builtin.PERSISTENT_VOLUME, namespace)
        assert await phase(client, "data", namespace) == "Bound"
        assert await phase(client, namespace) == "Bound"
        await client.delete(builtin.POD, "p", namespace=namespace)

        async def is_gone() -> bool:
            return [await phase(client, "data", namespace), await phase(client, namespace)] == [
                "gone",
                "gone",
            ]

        await eventually(is_gone)


async def test_a_pod_gets_the_claim_of_its_ephemeral_volume(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    template = {"metadata": {"labels": {"kind": "disk"}}, "spec": build_claim()["spec"]}
    volume = {"name": "d", "ephemeral": {"volumeClaimTemplate": template}}
    metadata = {"name": "p", "namespace": namespace}
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    pod["spec"] = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    async with running("ephemeral-volume"):
        created = await client.create(pod)

        async def is_made() -> bool:
            return await phase(client, "p-d", namespace) != "gone"

        await eventually(is_made)
        claim = await client.get(builtin.PERSISTENT_VOLUME_CLAIM, "p-d", namespace=namespace)
        assert claim["metadata"]["labels"] == {"kind": "disk"}
        (owner,) = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", created["metadata"]["uid"])
    assert kubelet.names == {"p"}


@pytest.mark.parametrize("lagging", ["persistentvolumes", "persistentvolumeclaims"])
async def test_a_view_that_lags_behind_releases_no_volume_and_binds_none_twice(
    lagging: str,
    client: Client,
    transport: Transport,
    namespace: str,
    running: Running,
    eventually: Eventually,
) -> None:
    faults = Faults()
    faults.lag_watches(lagging, by=0.1)
    names = [f"{namespace}-{n}" for n in range(3)]
    async with running(*ALL, through=FaultyTransport(transport, faults)):
        for name in names:
            await client.create(new(build_volume(name, storageClassName=namespace)))
            await client.create(new(build_claim(name, storageClassName=namespace), namespace))

        async def are_bound() -> bool:
            found = {await phase(client, name, namespace) for name in names}
            return found | {await phase(client, name) for name in names} == {"Bound"}

        await eventually(are_bound)
    volumes = [await client.get(builtin.PERSISTENT_VOLUME, name) for name in names]
    claims = await client.list(builtin.PERSISTENT_VOLUME_CLAIM, namespace=namespace)
    named = {volume["metadata"]["name"]: volume["spec"]["claimRef"]["name"] for volume in volumes}
    assert named == {claim["spec"]["volumeName"]: claim["metadata"]["name"] for claim in claims}


@pytest.mark.timeout(300)
async def test_it_ends_in_the_same_state_wherever_it_is_killed() -> None:
    steps = [0]

    async def create(client: Client) -> None:
        steps[0] = 1
        await client.create(new(build_volume("v")))
        await client.create(new(build_claim("data"), NAMESPACE))

    async def delete(client: Client) -> None:
        steps[0] = 2
        await client.delete(builtin.PERSISTENT_VOLUME_CLAIM, "data", namespace=NAMESPACE)

    async def reuse(client: Client) -> None:
        steps[0] = 3
        await client.create(new(build_claim("again"), NAMESPACE))
        free = {"spec": {"claimRef": None}}
        await client.patch(builtin.PERSISTENT_VOLUME, "v", free, type=PatchType.MERGE)

    async def is_complete(client: Client) -> bool:
        found = [await phase(client, name, NAMESPACE) for name in ("data", "again")]
        found.append(await phase(client, "v"))
        wanted = {
            1: ["Bound", "gone", "Bound"],
            2: ["gone", "gone", "Released"],
            3: ["gone", "Bound", "Bound"],
        }
        return found == wanted[steps[0]]

    writes = await kill_at_each_write(list(BINDER), [create, delete, reuse], is_complete)
    assert writes >= 12
