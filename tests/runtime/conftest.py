"""An API server for the tests of this room, and managers that end with the test."""

from __future__ import annotations

import asyncio
import itertools
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from kubewright.api import builtin
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.transport import Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.runtime.observer import Observer
from kubewright.runtime.operator import Operator
from tests.runtime.pools import build_operator
from tests.runtime.recording import RecordingTransport

Running = Callable[..., AbstractAsyncContextManager[Manager]]


@pytest.fixture
async def transport() -> AsyncIterator[RecordingTransport]:
    """Reach the server of KUBEWRIGHT_TEST_KUBECONFIG, or without it ours in memory."""
    path = os.environ.get("KUBEWRIGHT_TEST_KUBECONFIG")
    if path:
        inner = connect(KubeConfig.load(path)).transport
        yield RecordingTransport(inner)
        await inner.close()
        return
    async with serve(ServerOptions(listening=False)) as server:
        yield RecordingTransport(server.client_transport())


@pytest.fixture
async def client(transport: RecordingTransport) -> Client:
    return Client(transport)


@pytest.fixture
async def pools_are_served(client: Client) -> None:
    """Have the server know the kind of these tests."""
    await build_operator().ensure_crds(client)


@pytest.fixture
async def namespace(client: Client) -> str:
    """Make a namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(namespace)
    return name


@pytest.fixture
def running(client: Client, namespace: str) -> Running:
    """Run operators and controllers for the time of a block, in the test's namespace."""

    @asynccontextmanager
    async def run(
        *parts: Operator | Controller,
        speed: float = 1,
        through: Transport | None = None,
        observer: Observer | None = None,
    ) -> AsyncIterator[Manager]:
        connection = client if through is None else Client(through)
        manager = Manager(
            connection, namespaces=[namespace], clock=FastClock(speed), observer=observer
        )
        for part in parts:
            if isinstance(part, Operator):
                part.add_to(manager)
            else:
                manager.add(part)
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
            await asyncio.wait((task, ready))
        if not task.cancelled() and task.exception() is not None:
            await task

    return run


class FastClock(SystemClock):
    """Pass time faster than the world, so that back-off need not be waited for."""

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def monotonic(self) -> float:
        return super().monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self._speed)


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 10) -> None:
    """Wait until a check holds; fail when it does not in time."""
    async with asyncio.timeout(seconds):
        for pause in itertools.repeat(0.01):
            if await check():
                return
            await asyncio.sleep(pause)


async def config_map_names(client: Client, namespace: str) -> list[str]:
    """List the ConfigMaps of a namespace by name, but that of the cluster's root certificates."""
    found = await client.list(builtin.CONFIG_MAP, namespace=namespace)
    names = sorted(obj["metadata"]["name"] for obj in found)
    return [name for name in names if name != "kube-root-ca.crt"]
