"""Controllers killed at each of their writes: they must end where they would have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_node

from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.local.controllers import add_controllers
from kubewright.runtime.manager import Manager

NAMESPACE = "test"
SECONDS = 20

Step = Callable[[Client], Awaitable[object]]
Check = Callable[[Client], Awaitable[bool]]


class DyingTransport:
    """Carries requests until the n-th write: that one is lost before or after it is carried out."""

    def __init__(self, transport: Transport, fatal: int, *, after_commit: bool) -> None:
        self._transport = transport
        self._fatal = fatal
        self._after_commit = after_commit
        self.writes = 0
        self.died = asyncio.Event()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if method != "GET" and not path.endswith("/events"):
            self.writes += 1
            if self.writes == self._fatal and self._after_commit:
                await self._transport.request(method, path, query=query, headers=headers, body=body)
            if self.writes >= self._fatal:
                self.died.set()
        if self.died.is_set():
            await asyncio.get_running_loop().create_future()
        return await self._transport.request(method, path, query=query, headers=headers, body=body)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(method, path, query=query, headers=headers, body=body)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def managing(transport: Transport, names: Sequence[str]) -> AsyncIterator[None]:
    """Run controllers for the time of a block; they are killed at its end."""
    manager = Manager(Client(transport), grace_period=timedelta())
    add_controllers(manager, names, root_ca="CA")
    task = asyncio.create_task(manager.run())
    try:
        await manager.wait_ready()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _cluster(beside: Sequence[str]) -> AsyncIterator[tuple[Transport, Kubelet]]:
    async with serve(ServerOptions(listening=False)) as server:
        transport = server.client_transport()
        client = Client(transport)
        namespace: Object = {"apiVersion": "v1", "kind": "Namespace"}
        await client.create({**namespace, "metadata": {"name": NAMESPACE}})
        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
        await client.create({**account, "metadata": {"name": "default", "namespace": NAMESPACE}})
        node = build_node()
        del node["metadata"]["uid"]
        await client.create(node)
        kubelet = Kubelet(client, NAMESPACE, "node-a")
        task = asyncio.create_task(kubelet.run())
        try:
            async with managing(transport, beside):
                yield transport, kubelet
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _wait(check: Check, client: Client) -> None:
    async with asyncio.timeout(SECONDS):
        while not await check(client):  # noqa: ASYNC110 - the condition is a server's, not ours
            await asyncio.sleep(0.02)


async def kill_at_each_write(
    names: Sequence[str],
    act: Sequence[Step],
    check: Check,
    *,
    beside: Sequence[str] = ("scheduler", "node-lifecycle"),
    inspect: Callable[[Kubelet], None] = lambda kubelet: None,
) -> int:
    """Run a scenario once for each write of controllers, killed there; return how many there are.

    Args:
        names: The controllers that are killed, and started anew.
        act: What a user does, each when `check` held for what came before.
        check: Whether the scenario has ended.
        beside: Controllers that live on.
        inspect: Looks at what the kubelet saw at the end.
    """
    fatal = 1
    while True:
        for after_commit in (False, True):
            async with _cluster(beside) as (transport, kubelet):
                dying = DyingTransport(transport, fatal, after_commit=after_commit)
                client = Client(transport)
                async with managing(dying, names):
                    run = asyncio.create_task(_play(act, check, client))
                    died = asyncio.create_task(dying.died.wait())
                    await asyncio.wait((run, died), return_when=asyncio.FIRST_COMPLETED)
                    died.cancel()
                if not dying.died.is_set():
                    await run
                    return fatal - 1
                async with managing(transport, names):
                    await run
                inspect(kubelet)
        fatal += 1


async def _play(act: Sequence[Step], check: Check, client: Client) -> None:
    for step in act:
        await step(client)
        await _wait(check, client)
