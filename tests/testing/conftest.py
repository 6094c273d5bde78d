"""An API server behind faults, for the tests of this room."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator

import pytest

from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.transport import Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.testing import Faults, FaultyTransport


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
def faults() -> Faults:
    return Faults()


@pytest.fixture
def client(upstream: Transport, faults: Faults) -> Client:
    """Talk to the server through the faults."""
    return Client(FaultyTransport(upstream, faults))


@pytest.fixture
async def admin(upstream: Transport) -> Client:
    """Talk to the server directly."""
    return Client(upstream)


@pytest.fixture
async def namespace(admin: Client) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name
