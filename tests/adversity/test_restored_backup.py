"""The API server comes back with an older state: cache, writes and watches follow it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kubewright.api import builtin
from kubewright.api.errors import TransportError
from kubewright.client.client import Client
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.testing import Faults
from tests.adversity.conftest import Pools, Running
from tests.runtime.conftest import eventually
from tests.runtime.pools import Pool, build_operator


class RestorableServer:
    """An API server in a folder that can be stopped, and started from a copy of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._inner: Transport | None = None
        self._backups = 0

    async def start(self, folder: Path) -> None:
        options = ServerOptions(folder=folder, listening=False, persistent=True)
        server = await self._stack.enter_async_context(serve(options))
        self._inner = server.client_transport()

    async def stop(self) -> None:
        self._inner = None
        await self._stack.aclose()

    def back_up(self) -> Path:
        """Copy what the server has written so far: each write is in the file at once."""
        self._backups += 1
        copy = self._folder.with_name(f"backup-{self._backups}")
        shutil.copytree(self._folder, copy)
        return copy

    @property
    def _reachable(self) -> Transport:
        if self._inner is None:
            raise TransportError("connection refused")
        return self._inner

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        return await self._reachable.request(method, path, query=query, headers=headers, body=body)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AsyncIterator[Stream]:
        opening = self._reachable.stream(method, path, query=query, headers=headers, body=body)
        async with opening as stream:
            yield stream

    async def close(self) -> None:
        await self.stop()


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[Transport]:
    """Ours alone: the real one's backups are etcd's."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = RestorableServer(folder)
    await server.start(folder)
    yield server
    await server.stop()


async def test_a_server_restored_from_a_backup_is_followed(
    pools: Pools,
    admin: Client,
    namespace: str,
    running: Running,
    faults: Faults,
    upstream: RestorableServer,
) -> None:
    await pools.create("pool", size=1)
    async with running(build_operator()) as manager:
        await pools.settle("pool", 1)
        backup = upstream.back_up()
        await pools.set("pool", size=4, word="lost")
        await pools.create("lost", size=3)
        await pools.settle("pool", 4)
        await pools.settle("lost", 3)
        await upstream.stop()
        faults.drop_watches()
        await asyncio.sleep(0.05)
        await upstream.start(backup)
        await pools.settle("pool", 1)

        async def is_like_the_server() -> bool:
            for resource in (Pool.resource, builtin.CONFIG_MAP):
                found = await admin.list(resource, namespace=namespace)
                held = manager.cache.store(resource).list()
                if {_identity(obj["metadata"]) for obj in found} != {
                    (entry.key.name, entry.meta.uid, entry.meta.resource_version) for entry in held
                }:
                    return False
            return True

        await eventually(is_like_the_server)
        # The lost versions are given out again, for other states.
        await pools.set("pool", size=2, word="found")
        await pools.create("another", size=2)
        await pools.settle("pool", 2)
        await pools.settle("another", 2)
        await eventually(is_like_the_server)
    child = await admin.get(builtin.CONFIG_MAP, "pool-1", namespace=namespace)
    assert child["data"] == {"word": "found"}


def _identity(metadata: dict[str, str]) -> tuple[str, str, str]:
    return metadata["name"], metadata["uid"], metadata["resourceVersion"]
