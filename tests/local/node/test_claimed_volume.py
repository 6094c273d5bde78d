"""The volume behind a claim, and what keeps a pod from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.local.node.claimed_volume import ClaimedVolume, find_claimed_volume
from kubewright.local.node.host_path import MountError

POD: Object = {"metadata": {"name": "p", "namespace": "default", "uid": "uid-p"}, "spec": {}}
CLAIMED: Object = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
EPHEMERAL: Object = {"name": "v", "ephemeral": {}}
NODES = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
        ]
    }
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serve(ServerOptions(listening=False)) as server:
        yield Client(server.client_transport())


async def create_claim(client: Client, name: str = "data", **metadata: Any) -> Object:
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim["metadata"] = {"name": name, "namespace": "default", **metadata}
    claim["spec"] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "v",
    }
    return await client.create(claim)


async def bind(client: Client, claim: Object, **source: Any) -> None:
    metadata = claim["metadata"]
    reference = {key: metadata[key] for key in ("namespace", "name", "uid")}
    volume: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}}
    volume["spec"] = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": reference,
        "nodeAffinity": NODES,
        **source,
    }
    await client.create(volume)
    await client.patch(
        builtin.PERSISTENT_VOLUME_CLAIM,
        metadata["name"],
        {"status": {"phase": "Bound"}},
        type=PatchType.MERGE,
        namespace="default",
        subresource="status",
    )


async def problem(client: Client, volume: Object = CLAIMED) -> str:
    with pytest.raises(MountError) as caught:
        await find_claimed_volume(client, POD, volume)
    return str(caught.value)


async def test_a_bound_claim_is_where_its_volume_says(client: Client, tmp_path: Path) -> None:
    await bind(client, await create_claim(client), local={"path": str(tmp_path)})
    found = await find_claimed_volume(client, POD, CLAIMED)
    assert found == ClaimedVolume("v", tmp_path, read_only=False, takes_group=True)
    source = {"claimName": "data", "readOnly": True}
    read_only = await find_claimed_volume(client, POD, {**CLAIMED, "persistentVolumeClaim": source})
    assert read_only.read_only


async def test_a_folder_that_is_gone_is_not_made_anew(client: Client, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    await bind(client, await create_claim(client), local={"path": str(gone)})
    assert await problem(client) == (
        'MountVolume.NewMounter initialization failed for volume "v" : '
        f'path "{gone}" does not exist'
    )
    assert not gone.is_dir()


async def test_the_type_of_a_host_path_is_checked(client: Client, tmp_path: Path) -> None:
    source = {"path": str(tmp_path / "none"), "type": "Directory"}
    await bind(client, await create_claim(client), hostPath=source)
    text = await problem(client)
    assert text.startswith('MountVolume.SetUp failed for volume "v" : hostPath type check failed')


async def test_a_claim_that_cannot_be_used_is_told(client: Client) -> None:
    assert await problem(client) == (
        "error processing PVC default/data: failed to fetch PVC from API server: "
        'persistentvolumeclaims "data" not found'
    )
    claim = await create_claim(client)
    assert await problem(client) == "error processing PVC default/data: PVC is not bound"
    other = {**claim, "metadata": {**claim["metadata"], "uid": "uid-of-before"}}
    await bind(client, other, hostPath={"path": "/data"})
    text = "error processing PVC default/data: PV v is bound to another claim"
    assert await problem(client) == text
    await client.delete(builtin.PERSISTENT_VOLUME_CLAIM, "data", namespace="default")
    assert await problem(client) == "error processing PVC default/data: PVC is being deleted"


async def test_an_ephemeral_volume_is_the_pods_own_claim(client: Client, tmp_path: Path) -> None:
    await create_claim(client, "p-v")
    assert await problem(client, EPHEMERAL) == (
        "PVC default/p-v was not created for pod default/p (pod is not owner)"
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    claim = await client.patch(
        builtin.PERSISTENT_VOLUME_CLAIM,
        "p-v",
        {"metadata": {"ownerReferences": [owner]}},
        type=PatchType.MERGE,
        namespace="default",
    )
    await bind(client, claim, local={"path": str(tmp_path)})
    assert (await find_claimed_volume(client, POD, EPHEMERAL)).path == tmp_path
