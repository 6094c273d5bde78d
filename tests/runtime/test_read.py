"""A controller holds as much of a kind as it says, and shares it with those who say the same."""

from __future__ import annotations

import asyncio

import pytest

from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.runtime.read import Read
from kubewright.runtime.watch import Watch
from kubewright.testing import Faults, FaultyTransport
from tests.runtime.conftest import Running, eventually
from tests.runtime.recording import RecordingTransport

WEB = {"app": "web"}


def drop_data(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "data"}


async def do_nothing(key: NamespacedName, ctx: Context) -> None:
    """Reconcile nothing."""


async def create_secret(client: Client, namespace: str, name: str, **labels: str) -> None:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await client.create({**body, "stringData": {"word": "secret"}})


class Reader:
    """Keep what a reconcile of a ConfigMap saw of the Secrets, at each time."""

    def __init__(self, read: Read) -> None:
        self.seen: list[list[Object]] = []
        self.controller = Controller(
            "reader",
            builtin.CONFIG_MAP,
            self._reconcile,
            reads=[read],
            watches=[Watch(builtin.SECRET, lambda entry: [NamespacedName("", "any")])],
        )

    async def _reconcile(self, key: NamespacedName, ctx: Context) -> None:
        self.seen.append(ctx.list(builtin.SECRET))

    async def has_seen(self) -> bool:
        return bool(self.seen and self.seen[-1])

    async def has_seen_two(self) -> bool:
        return bool(self.seen) and len(self.seen[-1]) == 2


async def test_a_selector_holds_what_it_selects_and_wakes_by_it(
    client: Client, namespace: str, running: Running
) -> None:
    reader = Reader(Read(builtin.SECRET, labels=WEB))
    async with running(reader.controller):
        await create_secret(client, namespace, "other")
        await create_secret(client, namespace, "web", app="web")
        await eventually(reader.has_seen)
    assert {obj["metadata"]["name"] for seen in reader.seen for obj in seen} == {"web"}


async def test_metadata_only_brings_no_data_and_keeps_the_type(
    client: Client, namespace: str, running: Running
) -> None:
    reader = Reader(Read(builtin.SECRET, labels=WEB, metadata_only=True))
    await create_secret(client, namespace, "early", app="web")
    async with running(reader.controller):
        await create_secret(client, namespace, "late", app="web")
        await eventually(reader.has_seen_two)
    for obj in reader.seen[-1]:
        assert (obj["apiVersion"], obj["kind"]) == ("v1", "Secret")
        assert "data" not in obj


async def test_a_transform_drops_what_is_not_needed(
    client: Client, namespace: str, running: Running
) -> None:
    reader = Reader(Read(builtin.SECRET, labels=WEB, transform=drop_data))
    await create_secret(client, namespace, "early", app="web")
    async with running(reader.controller):
        await create_secret(client, namespace, "late", app="web")
        await eventually(reader.has_seen_two)
    assert all("data" not in obj and obj["type"] == "Opaque" for obj in reader.seen[-1])


async def test_a_transform_that_fails_keeps_the_object_and_says_so(
    client: Client, namespace: str, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(obj: Object) -> Object:
        raise KeyError("spec")

    reader = Reader(Read(builtin.SECRET, labels=WEB, transform=broken))
    async with running(reader.controller) as manager:
        await create_secret(client, namespace, "web", app="web")
        await eventually(reader.has_seen)
        store = manager.cache.store(builtin.SECRET, labels=WEB, transform=broken)
        entry = store.get(NamespacedName(namespace, "web"))
    assert entry is not None
    assert entry.error == "transforming it failed: KeyError('spec')"
    assert "data" in reader.seen[-1][0]
    assert "it is kept whole" in caplog.text


async def test_two_controllers_share_one_watch_for_each_part(
    transport: RecordingTransport, client: Client, namespace: str
) -> None:
    faults = Faults()
    manager = Manager(Client(FaultyTransport(transport, faults)), namespaces=[namespace])
    for name in ("one", "two"):
        reads = [Read(builtin.SECRET, labels=WEB, metadata_only=True)]
        manager.add(Controller(name, builtin.CONFIG_MAP, do_nothing, reads=reads))
    manager.add(Controller("three", builtin.SECRET, do_nothing))
    task = asyncio.create_task(manager.run())
    await manager.wait_ready()
    task.cancel()
    await asyncio.wait((task,))
    watched = [call.resource for call in faults.traffic.calls if call.is_watch]
    assert sorted(watched) == ["configmaps", "secrets", "secrets"]


async def test_a_write_outside_the_part_is_not_waited_for(
    client: Client, namespace: str, running: Running
) -> None:
    """The store of a part may never see it: to wait would cost every reconcile five seconds."""
    count = 0

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        nonlocal count
        count += 1
        labels = {"metadata": {"labels": {"count": str(count)}}}
        await ctx.patch(builtin.SECRET, NamespacedName(namespace, "other"), labels)

    async def is_twice() -> bool:
        return count >= 2

    await create_secret(client, namespace, "other")
    config_map = {"name": "a", "namespace": namespace}
    await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": config_map})
    reads = [Read(builtin.SECRET, labels=WEB)]
    async with running(Controller("c", builtin.CONFIG_MAP, reconcile, reads=reads)):
        await client.patch(
            builtin.CONFIG_MAP,
            "a",
            {"data": {"x": "y"}},
            type=PatchType.MERGE,
            namespace=namespace,
        )
        await eventually(is_twice, seconds=3)


@pytest.mark.parametrize(
    ("owns", "reads"),
    [
        ((), (Read(builtin.CONFIG_MAP, labels=WEB),)),
        ((builtin.SECRET,), (Read(builtin.SECRET, metadata_only=True),)),
        ((), (Read(builtin.SECRET, labels=WEB), Read(builtin.SECRET, labels={"app": "db"}))),
    ],
    ids=["its own kind", "an owned kind", "two parts"],
)
def test_a_kind_is_held_in_one_way(owns: tuple[()], reads: tuple[Read, ...]) -> None:
    with pytest.raises(ConfigurationError, match="held in two ways"):
        Controller("c", builtin.CONFIG_MAP, do_nothing, owns=owns, reads=reads)


def test_naming_a_kind_again_changes_nothing() -> None:
    Controller(
        "c",
        builtin.CONFIG_MAP,
        do_nothing,
        owns=[builtin.SECRET],
        reads=[builtin.SECRET, builtin.CONFIG_MAP],
    )
