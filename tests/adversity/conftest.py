"""An API server behind faults, and managers that work through them at the speed of a test."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from kubewright.api.conditions import find_condition
from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.requests import PatchType
from kubewright.client.transport import Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.runtime.operator import Operator
from kubewright.testing import Faults, FaultyTransport
from tests.runtime.conftest import FastClock, eventually
from tests.runtime.pools import Pool, build_operator, build_pool

SPEED = 50
"""How much faster than the world the time of operator and faults passes."""

Running = Callable[..., AbstractAsyncContextManager[Manager]]


class Pools:
    """The pools of a test, as a user without faults sees them."""

    def __init__(self, admin: Client, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace

    async def create(self, name: str, **spec: object) -> None:
        await self.admin.create(build_pool(self.namespace, name, **spec))

    async def set(self, name: str, **spec: Any) -> None:
        patch = {"spec": spec}
        await self.admin.patch(
            Pool.resource, name, patch, type=PatchType.MERGE, namespace=self.namespace
        )

    async def delete(self, name: str) -> None:
        await self.admin.delete(Pool.resource, name, namespace=self.namespace)

    async def settle(self, name: str, members: int, *, seconds: float = 20) -> None:
        """Wait until a pool says of its present generation that it has its members."""

        async def is_settled() -> bool:
            pool = await self.admin.get(Pool.resource, name, namespace=self.namespace)
            status = pool.get("status") or {}
            ready = find_condition(status.get("conditions") or [], "Ready")
            return (
                ready is not None
                and ready["status"] == "True"
                and status.get("observedGeneration") == pool["metadata"]["generation"]
                and len(status.get("members") or []) == members
            )

        await eventually(is_settled, seconds)


@pytest.fixture
async def upstream() -> AsyncIterator[Transport]:
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
def speed() -> float:
    """Tests that measure a rate choose another one, which the machine can follow."""
    return SPEED


@pytest.fixture
def clock(speed: float) -> FastClock:
    return FastClock(speed)


@pytest.fixture
def faults(clock: FastClock) -> Faults:
    return Faults(clock=clock)


@pytest.fixture
async def admin(upstream: Transport) -> Client:
    """Talk to the server directly, and have it serve the pools of these tests."""
    client = Client(upstream)
    await build_operator().ensure_crds(client)
    return client


@pytest.fixture
async def namespace(admin: Client) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def running(upstream: Transport, faults: Faults, clock: FastClock, namespace: str) -> Running:
    """Run operators and controllers through the faults for the time of a block."""

    @asynccontextmanager
    async def run(*parts: Operator | Controller, ready: bool = True) -> AsyncIterator[Manager]:
        client = Client(FaultyTransport(upstream, faults), clock=clock)
        manager = Manager(client, namespaces=[namespace], clock=clock)
        for part in parts:
            if isinstance(part, Operator):
                part.add_to(manager)
            else:
                manager.add(part)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            if ready:
                await manager.wait_ready()
            yield manager
            task.cancel()

    return run


@pytest.fixture
def pools(admin: Client, namespace: str) -> Pools:
    return Pools(admin, namespace)
