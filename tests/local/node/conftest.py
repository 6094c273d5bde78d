"""An API server in memory with a namespace for pods, and nodes that end with the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kubewright.api.builtin import NAMESPACE
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.local.apiserver import ServerOptions, serve
from kubewright.local.node import Node, PodRuntime
from kubewright.local.node.detection import search_path


class RunningNode:
    """A node and the task that it runs in."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.task = asyncio.create_task(node.run())

    async def wait_ready(self) -> None:
        ready = asyncio.create_task(self.node.wait_ready())
        await asyncio.wait([self.task, ready], return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            ready.cancel()
            self.task.result()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


StartNode = Callable[[PodRuntime], Awaitable[RunningNode]]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serve(ServerOptions(listening=False)) as server:
        client = Client(server.client_transport())
        await prepare_namespace(client)
        yield client


async def prepare_namespace(client: Client) -> None:
    """Make what the controllers of a whole cluster make in each namespace."""
    for name in ("ns", "kube-node-lease"):
        try:
            await client.get(NAMESPACE, name)
        except NotFound:
            metadata: Object = {"name": name}
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = {"name": "default", "namespace": "ns"}
    await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})


@pytest.fixture
async def start_node(client: Client, tmp_path: Path) -> AsyncIterator[StartNode]:
    nodes: list[RunningNode] = []

    async def start(runtime: PodRuntime) -> RunningNode:
        running = RunningNode(Node(client, "node-1", runtime, tmp_path / "node"))
        nodes.append(running)
        await running.wait_ready()
        return running

    yield start
    for running in nodes:
        await running.stop()


@pytest.fixture(autouse=True)
def system_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", search_path())
