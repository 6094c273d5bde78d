"""A cluster for these tests: an API server, the controllers on it, and a kubelet in miniature."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

import pytest
from tests.local.controllers.jobs import Jobs
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_node
from tests.local.controllers.pod_ender import PodEnder, succeeds

from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.transport import Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.local.controllers import add_controllers
from kubewright.runtime.expectations import Expectations
from kubewright.runtime.manager import Manager

Running = Callable[..., AbstractAsyncContextManager[Manager]]
Eventually = Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    """Reach the server of KUBEWRIGHT_TEST_KUBECONFIG, or without it ours in memory."""
    path = os.environ.get("KUBEWRIGHT_TEST_KUBECONFIG")
    if path:
        inner = connect(KubeConfig.load(path)).transport
        yield inner
        await inner.close()
        return
    async with serve(ServerOptions(listening=False)) as server:
        yield server.client_transport()


@pytest.fixture
async def client(transport: Transport) -> Client:
    return Client(transport)


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(namespace)
    return name


@pytest.fixture
def running(client: Client) -> Running:
    """Run controllers for the time of a block, on the test's transport or through another one."""

    @asynccontextmanager
    async def run(
        *names: str, through: Transport | None = None, dies: bool = False
    ) -> AsyncIterator[Manager]:
        grace = timedelta(seconds=0 if dies else 5)
        manager = Manager(client if through is None else Client(through), grace_period=grace)
        add_controllers(manager, names, root_ca="CA")
        task = asyncio.create_task(manager.run())
        ready = asyncio.create_task(manager.wait_ready())
        try:
            await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            yield manager
        finally:
            ready.cancel()
            task.cancel()
            await asyncio.gather(task, ready, return_exceptions=True)

    return run


@pytest.fixture
async def kubelet(client: Client, namespace: str) -> AsyncIterator[Kubelet]:
    """Make a node, ready and without taints, that runs the pods of the test's namespace."""
    name = f"node-{namespace}"
    node = build_node(name)
    del node["metadata"]["uid"]
    await client.create(node)
    # The real server admits pods only where their account is.
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await client.create({**account, "metadata": {"name": "default", "namespace": namespace}})
    kubelet = Kubelet(client, namespace, name)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(kubelet.run())
        yield kubelet
        task.cancel()
    await client.delete(kubelet.resource, name)


@pytest.fixture
def eventually() -> Eventually:
    """Wait until an asynchronous condition holds, for 20 s at most."""

    async def wait(condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(20):
            while not await condition():  # noqa: ASYNC110 - the condition is a server's, not ours
                await asyncio.sleep(0.02)

    return wait


@pytest.fixture(params=[True, False], ids=["waited for", "not waited for"])
def patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let looks wait for the view, or act as if each had waited in vain."""
    if not request.param:

        async def give_up(self: Expectations, request: object) -> bool:
            return False

        monkeypatch.setattr(Expectations, "settle", give_up)


@pytest.fixture
async def ender(client: Client, namespace: str) -> AsyncIterator[PodEnder]:
    """End the pods of the test's namespace: by default well, and at once."""
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await client.create({**account, "metadata": {"name": "default", "namespace": namespace}})
    ender = PodEnder(client, namespace, succeeds)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ender.run())
        yield ender
        task.cancel()


@pytest.fixture
def jobs(client: Client, namespace: str, eventually: Eventually) -> Jobs:
    """Make Jobs in the test's namespace and wait for what becomes of them."""
    return Jobs(client, namespace, eventually)
