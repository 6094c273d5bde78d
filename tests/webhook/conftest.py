"""An API server, and webhook servers that it reaches on this machine."""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.operator import Operator
from kubewright.webhook import Endpoint, Registration, SecretCertificates, WebhookServer

Serving = Callable[..., AbstractAsyncContextManager[WebhookServer]]
LOOPBACK = Endpoint.parse(url="https://127.0.0.1:0")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Reach the server of KUBEWRIGHT_TEST_KUBECONFIG, or without it ours in memory."""
    path = os.environ.get("KUBEWRIGHT_TEST_KUBECONFIG")
    if path:
        async with connect(KubeConfig.load(path)) as client:
            yield client
        return
    async with serve(ServerOptions(listening=False)) as server:
        yield Client(server.client_transport())


@pytest.fixture
async def namespace(client: Client) -> str:
    """Make a namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(namespace)
    return name


@pytest.fixture
def serving(client: Client, namespace: str) -> Serving:
    """Serve and register the webhooks of an operator for the time of a block."""

    @asynccontextmanager
    async def run(operator: Operator, **options: Any) -> AsyncIterator[WebhookServer]:
        certificates = build_certificates(client, namespace, **options)
        server = WebhookServer(
            [operator],
            host="127.0.0.1",
            port=0,
            certificates=certificates,
            endpoint=LOOPBACK,
            registration=Registration(client, [operator]),
        )
        task = asyncio.create_task(server.run())
        try:

            async def is_registered() -> bool:
                if task.done():
                    await task
                return server.is_registered

            await eventually(is_registered)
            yield server
        finally:
            task.cancel()
            await asyncio.wait((task,))

    return run


def build_certificates(
    client: Client,
    namespace: str,
    *,
    settle: float = 60,
    interval: float = 30,
) -> SecretCertificates:
    return SecretCertificates(
        client,
        NamespacedName(namespace, "webhook-cert"),
        clock=SystemClock(),
        settle=timedelta(seconds=settle),
        interval=timedelta(seconds=interval),
    )


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 10) -> None:
    """Wait until a check holds; fail when it does not in time."""
    async with asyncio.timeout(seconds):
        for pause in itertools.repeat(0.02):
            if await check():
                return
            await asyncio.sleep(pause)


async def read_shown(server: WebhookServer) -> str:
    """Return the certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return ssl.DER_cert_to_PEM_cert(shown)
