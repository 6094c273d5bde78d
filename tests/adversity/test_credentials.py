"""Tokens and certificates expire and are replaced under a running operator, one side first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from kubewright.api.errors import Unauthorized
from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.credentials import RenewedCertificate, StaticCredentials
from kubewright.client.kubeconfig import KubeConfig, User
from kubewright.client.tls import CertificateFiles, ClientCertificate, TLSConfig
from kubewright.client.transport import Transport
from kubewright.runtime.manager import Manager
from kubewright.testing import FaultProxy, Faults
from tests.adversity.conftest import Pools
from tests.client.certificates import Authority
from tests.runtime.conftest import FastClock
from tests.runtime.pools import build_operator


class GuardedServer:
    """An API server over TLS that knows one user, by token and by certificate."""

    def __init__(self, upstream: Transport, faults: Faults) -> None:
        self.authority = Authority()
        self.token = "first"
        self.user = "first"
        self.refusals = 0
        self._proxy = FaultProxy(upstream, faults)
        self._port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Listen while the block lasts, at the port of before."""
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        context = self.authority.server_context("api.example")
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(server, "127.0.0.1", self._port, ssl=context)
        self._port = listening.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            listening.close()
            await server.shutdown(0.1)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        names = [pair[0][1] for pair in peer.get("subject", ())]
        if request.headers.get("Authorization") == f"Bearer {self.token}" or self.user in names:
            return await self._proxy._handle(request)
        self.refusals += 1
        body = msgspec.json.encode(Unauthorized("who are you?").to_status())
        return web.Response(status=401, body=body, content_type="application/json")


@pytest.fixture
def server(upstream: Transport, faults: Faults) -> GuardedServer:
    return GuardedServer(upstream, faults)


@asynccontextmanager
async def operating(
    server: GuardedServer, user: User, ca_file: Path, namespace: str, clock: FastClock
) -> AsyncIterator[Client]:
    tls = TLSConfig(server.authority.pem, server_name="api.example", ca_file=ca_file)
    client = connect(KubeConfig(server.url, tls=tls, user=user), clock=clock)
    manager = Manager(client, namespaces=[namespace], clock=clock)
    build_operator().add_to(manager)
    task = asyncio.create_task(manager.run())
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.wait((task,))
        await client.close()


@pytest.fixture
def ca_file(server: GuardedServer, tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_bytes(server.authority.pem)
    return path


async def test_a_token_that_expired_is_replaced_when_its_file_is(
    server: GuardedServer,
    ca_file: Path,
    tmp_path: Path,
    pools: Pools,
    faults: Faults,
    clock: FastClock,
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("first")
    await pools.create("pool", size=1)
    async with server.serve():
        user = User(token_file=token_file)
        async with operating(server, user, ca_file, pools.namespace, clock):
            await pools.settle("pool", 1)
            server.token = "second"
            faults.drop_watches()
            await pools.set("pool", size=2)
            # The file is late: for a while everything is refused.
            await clock.sleep(30)
            assert server.refusals
            token_file.write_text("second")
            await pools.settle("pool", 2)


async def test_a_certificate_that_expired_is_replaced_when_its_files_are(
    server: GuardedServer,
    ca_file: Path,
    tmp_path: Path,
    pools: Pools,
    faults: Faults,
    clock: FastClock,
) -> None:
    files = CertificateFiles(tmp_path / "user.crt", tmp_path / "user.key")

    def write(pair: ClientCertificate) -> None:
        files.certificate.write_bytes(pair.certificate)
        files.key.write_bytes(pair.key)

    write(server.authority.issue("first"))
    await pools.create("pool", size=1)
    async with server.serve():
        user = User(certificate_files=files)
        async with operating(server, user, ca_file, pools.namespace, clock):
            await pools.settle("pool", 1)
            server.user = "second"
            faults.drop_watches()
            await pools.set("pool", size=2)
            # First only half of the pair: it must not be used, and does no harm.
            files.certificate.write_bytes(server.authority.issue("second").certificate)
            await clock.sleep(30)
            assert server.refusals
            write(server.authority.issue("second"))
            await pools.settle("pool", 2)


async def test_an_authority_that_was_replaced_is_read_again(
    server: GuardedServer, ca_file: Path, pools: Pools, clock: FastClock
) -> None:
    await pools.create("pool", size=1)
    async with AsyncExitStack() as stack:
        async with server.serve():
            user = User(token="first")
            operator = operating(server, user, ca_file, pools.namespace, clock)
            await stack.enter_async_context(operator)
            await pools.settle("pool", 1)
        server.authority = Authority()
        await stack.enter_async_context(server.serve())
        await pools.set("pool", size=2)
        await clock.sleep(60)
        replace_file(ca_file, server.authority.pem)
        await pools.settle("pool", 2)


def replace_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_the_last_certificate_serves_while_its_files_are_away(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "user.crt", tmp_path / "user.key")
    pair = Authority().issue("jane")
    files.certificate.write_bytes(pair.certificate)
    files.key.write_bytes(pair.key)
    credentials = RenewedCertificate(StaticCredentials(token="t"), files)
    first = await credentials.current()
    files.key.unlink()
    credentials.invalidate()
    assert await credentials.current() == first
    assert (first.certificate, first.headers) == (pair, {"Authorization": "Bearer t"})
