"""The provisioner of a node, with the binder, on an API server and real folders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.local.controllers.crashes import DyingTransport
from tests.local.controllers.objects import build_claim

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.local.controllers import add_controllers
from kubewright.local.storage.local_volume import build_storage_class
from kubewright.local.storage.provisioner import Provisioner
from kubewright.runtime.manager import Manager

NAMESPACE = "default"
CONTROLLERS = (
    "persistentvolume-binder",
    "persistentvolumeclaim-protection",
    "persistentvolume-protection",
)


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        await manager.wait_ready()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def provisioning(
    transport: Transport, folder: Path, node: str = "node-a"
) -> AsyncIterator[None]:
    """Run the provisioner for the time of a block; it is killed at its end."""
    manager = Manager(Client(transport), grace_period=timedelta())
    for controller in Provisioner(node, folder).build_controllers():
        manager.add(controller)
    async with running(manager):
        yield


@asynccontextmanager
async def control_plane() -> AsyncIterator[tuple[Transport, Client]]:
    async with serve(ServerOptions(listening=False)) as server:
        transport = server.client_transport()
        client = Client(transport)
        await client.create(build_storage_class(default=True))
        manager = Manager(client)
        add_controllers(manager, CONTROLLERS)
        async with running(manager):
            yield transport, client


async def create_claim(client: Client, *, selected: bool = True, **spec: Any) -> None:
    claim = build_claim(**{"storageClassName": None, **spec})
    claim["metadata"] = {"name": "data", "namespace": NAMESPACE}
    if selected:
        annotations = {"volume.kubernetes.io/selected-node": "node-a"}
        claim["metadata"]["annotations"] = annotations
    del claim["status"]
    await client.create(claim)


async def read_claim(client: Client) -> Object:
    return await client.get(builtin.PERSISTENT_VOLUME_CLAIM, "data", namespace=NAMESPACE)


async def is_bound(client: Client) -> bool:
    return bool((await read_claim(client))["status"].get("phase") == "Bound")


async def has_no_volume(client: Client) -> bool:
    return not list(await client.list(builtin.PERSISTENT_VOLUME))


async def wait(check: Any, client: Client) -> None:
    async with asyncio.timeout(20):
        while not await check(client):  # noqa: ASYNC110 - the condition is a server's, not ours
            await asyncio.sleep(0.01)


def list_folder(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


async def delete_claim(client: Client) -> None:
    await client.delete(builtin.PERSISTENT_VOLUME_CLAIM, "data", namespace=NAMESPACE)


async def test_a_claim_gets_a_folder_that_grows_and_goes_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "volumes"
    async with control_plane() as (transport, client), provisioning(transport, folder):
        await create_claim(client)
        await wait(is_bound, client)
        (made,) = list_folder(folder)
        assert made.stat().st_mode & 0o777 == 0o777
        (made / "kept").write_text("data")
        (made / "closed").mkdir(mode=0)

        larger = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
        await client.patch(
            builtin.PERSISTENT_VOLUME_CLAIM,
            "data",
            larger,
            type=PatchType.MERGE,
            namespace=NAMESPACE,
        )

        async def has_grown(client: Client) -> bool:
            return bool((await read_claim(client))["status"]["capacity"]["storage"] == "5Gi")

        await wait(has_grown, client)
        (volume,) = await client.list(builtin.PERSISTENT_VOLUME)
        assert volume["spec"]["capacity"] == {"storage": "5Gi"}
        await delete_claim(client)
        await wait(has_no_volume, client)
        assert list_folder(folder) == []


async def test_a_volume_that_is_retained_keeps_its_folder(tmp_path: Path) -> None:
    async with control_plane() as (transport, client), provisioning(transport, tmp_path):
        await create_claim(client)
        await wait(is_bound, client)
        (volume,) = await client.list(builtin.PERSISTENT_VOLUME)
        name = volume["metadata"]["name"]
        retain = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
        await client.patch(builtin.PERSISTENT_VOLUME, name, retain, type=PatchType.MERGE)
        await delete_claim(client)

        async def is_released(client: Client) -> bool:
            live = await client.get(builtin.PERSISTENT_VOLUME, name)
            return bool(live["status"]["phase"] == "Released")

        await wait(is_released, client)
        await client.delete(builtin.PERSISTENT_VOLUME, name)
        await wait(has_no_volume, client)
        assert len(list_folder(tmp_path)) == 1


async def test_a_folder_of_somebody_else_is_never_removed(tmp_path: Path) -> None:
    other, own = tmp_path / "other", tmp_path / "own"
    async with control_plane() as (transport, client):
        async with provisioning(transport, other):
            await create_claim(client)
            await wait(is_bound, client)
        async with provisioning(transport, own):
            await delete_claim(client)

            async def is_told(client: Client) -> bool:
                events = await client.list(builtin.CORE_EVENT, namespace=NAMESPACE)
                return any(event["reason"] == "VolumeFailedDelete" for event in events)

            await wait(is_told, client)
    assert len(list_folder(other)) == 1


async def test_only_one_node_keeps_a_folder_for_a_claim_that_waits_for_none(
    tmp_path: Path,
) -> None:
    storage_class = {**build_storage_class(default=False), "volumeBindingMode": "Immediate"}
    storage_class["metadata"] = {"name": "immediate"}
    folders = [tmp_path / name for name in ("node-a", "node-b")]
    async with control_plane() as (transport, client):
        await client.create(storage_class)
        async with (
            provisioning(transport, folders[0], "node-a"),
            provisioning(transport, folders[1], "node-b"),
        ):
            await create_claim(client, storageClassName="immediate", selected=False)
            await wait(is_bound, client)
            (volume,) = await client.list(builtin.PERSISTENT_VOLUME)

            async def is_tidy(_: Client) -> bool:
                return [path for folder in folders for path in list_folder(folder)] == [
                    Path(volume["spec"]["local"]["path"])
                ]

            await wait(is_tidy, client)


async def test_what_a_folder_cannot_be_is_refused_with_an_event(tmp_path: Path) -> None:
    async with control_plane() as (transport, client), provisioning(transport, tmp_path):
        await create_claim(client, volumeMode="Block")

        async def is_told(client: Client) -> bool:
            events = await client.list(builtin.CORE_EVENT, namespace=NAMESPACE)
            return any(
                event["reason"] == "ProvisioningFailed" and "volumeMode Block" in event["message"]
                for event in events
            )

        await wait(is_told, client)
        assert await has_no_volume(client)
        assert list_folder(tmp_path) == []


@pytest.mark.timeout(300)
async def test_it_ends_in_the_same_state_wherever_it_is_killed(tmp_path: Path) -> None:
    async def play(client: Client) -> None:
        await create_claim(client)
        await wait(is_bound, client)
        await delete_claim(client)
        await wait(has_no_volume, client)

    fatal = 1
    while True:
        for after_commit in (False, True):
            folder = tmp_path / f"{fatal}-{after_commit}"
            async with control_plane() as (transport, client):
                dying = DyingTransport(transport, fatal, after_commit=after_commit)
                run = asyncio.create_task(play(client))
                async with provisioning(dying, folder):
                    died = asyncio.create_task(dying.died.wait())
                    await asyncio.wait((run, died), return_when=asyncio.FIRST_COMPLETED)
                    died.cancel()
                async with provisioning(transport, folder):
                    await run
            assert list_folder(folder) == []
            if not dying.died.is_set():
                assert fatal > 3
                return
        fatal += 1
