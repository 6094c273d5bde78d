"""A cluster for one test: an API server, and whatever the test runs against it."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.transport import Transport
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager, Runnable
from kubewright.runtime.operator import Operator
from kubewright.testing.faults import Faults
from kubewright.testing.faulty_transport import FaultyTransport

_GRACE = timedelta(seconds=5)


class Cluster:
    """An API server and its test's place on it.

    The fixtures `cluster` and `real_cluster` lend one; `transport` brings requests to its server.

        async with cluster.run(operator):
            await cluster.client.create(obj)
            await eventually(lambda: cluster.client.get(Memcached, "pool", namespace="default"))

    Attributes:
        client: talks to the server directly, as the administrator; no fault hits it.
        faults: hit everything that `run`, `connect` and `listen` bring to the server.
        namespace: where the test may make what it likes.
        namespaces: those that operators watch; None for all.
    """

    def __init__(
        self, transport: Transport, *, namespace: str, namespaces: Sequence[str] | None = None
    ) -> None:
        self.client = Client(transport)
        self.faults = Faults()
        self.namespace = namespace
        self.namespaces = namespaces
        self._transport = transport

    def connect(self, faults: Faults | None = None) -> Client:
        """Build a client that the cluster's faults hit, or those that are given."""
        return Client(FaultyTransport(self._transport, faults or self.faults))

    async def install(self, *operators: Operator) -> None:
        """Install the CRDs of operators and wait until they are served; `run` does it too.

        Raises:
            Timeout: one is not served in time.
            APIError: the server refuses one.
        """
        for operator in operators:
            await operator.ensure_crds(self.client)

    @asynccontextmanager
    async def run(
        self,
        *parts: Operator | Controller | Runnable,
        clock: Clock | None = None,
        client: Client | None = None,
        grace_period: timedelta = _GRACE,
    ) -> AsyncIterator[Manager]:
        """Run operators and controllers while the block lasts, CRDs installed and caches synced.

        Each call is a new process, as far as the operator can tell: it knows nothing of earlier
        ones. The block's end stops it as SIGTERM does.

        Arguments:
            parts: what to run, in one manager.
            clock: what the runtime waits by; see `FakeClock`.
            client: its connection; by default one that `faults` hit.
            grace_period: how long workers may finish what they do at the end.

        Raises:
            ExceptionGroup: the operator failed; what it raised.
        """
        await self.install(*(part for part in parts if isinstance(part, Operator)))
        manager = Manager(
            client or self.connect(),
            namespaces=self.namespaces,
            clock=clock,
            random=Random(0),
            grace_period=grace_period,
        )
        for part in parts:
            if isinstance(part, Operator):
                part.add_to(manager)
            else:
                manager.add(part)
        async with running(manager):
            yield manager

    @asynccontextmanager
    async def run_controllers(self, *names: str) -> AsyncIterator[Manager]:
        """Run controllers of Kubernetes while the block lasts, by kube-controller-manager's names.

        Without names all of them run. No fault hits them.

        Raises:
            ConfigurationError: there is no controller of a name; the message lists those that are.
        """
        from kubewright.local.controllers import add_controllers, select_controllers

        manager = Manager(self.client, grace_period=_GRACE, random=Random(0))
        add_controllers(manager, select_controllers(names or ("*",)), root_ca="")
        async with running(manager):
            yield manager

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Path]:
        """Let other processes reach the server while the block lasts; lend their kubeconfig.

        They go through a `FaultProxy`, so the cluster's faults hit them.
        """
        from kubewright.testing.fault_proxy import FaultProxy

        with tempfile.TemporaryDirectory(prefix="kubewright-") as folder:
            async with FaultProxy(self._transport, self.faults).serve() as proxy:
                yield proxy.write_kubeconfig(Path(folder) / "kubeconfig")


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[None]:
    """Run a manager while the block lasts; it is ready when the block begins.

    Raises:
        ExceptionGroup: the manager failed, before the block or in it; the block was cancelled then.
    """
    task = asyncio.create_task(manager.run())
    ready = asyncio.create_task(manager.wait_ready())
    try:
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        with _ending_with(task):
            yield
    finally:
        ready.cancel()
        task.cancel()
        await asyncio.wait((task, ready))
    if not task.cancelled():
        await task


@contextmanager
def _ending_with(task: asyncio.Task[None]) -> Iterator[None]:
    """Cancel the block where a task ends before it: nothing that it waits for would come."""
    host = asyncio.current_task()
    assert host is not None, "this runs in a task"

    def cancel(_: object) -> None:
        host.cancel()

    task.add_done_callback(cancel)
    try:
        yield
    except asyncio.CancelledError:
        if not task.done() or task.cancelled() or host.uncancel():
            raise
    finally:
        task.remove_done_callback(cancel)


@asynccontextmanager
async def embedded_cluster() -> AsyncIterator[Cluster]:
    """Start an API server in this process, in memory, and throw it away at the end.

    It has no controllers and no nodes until a test runs some, and no port until it listens.
    Operators watch all namespaces.
    """
    from kubewright.local.apiserver.serving import ServerOptions, serve

    async with serve(ServerOptions(listening=False)) as server:
        yield Cluster(server.client_transport(), namespace="default")


@asynccontextmanager
async def cluster_at(config: KubeConfig) -> AsyncIterator[Cluster]:
    """Use a running API server; the cluster is a namespace of its own, deleted at the end.

    Operators watch that namespace alone. CRDs that are installed stay.
    """
    namespace = f"test-{uuid.uuid4().hex[:8]}"
    obj: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    async with connect(config) as client:
        await client.create(obj)
        try:
            yield Cluster(client.transport, namespace=namespace, namespaces=[namespace])
        finally:
            await client.delete(builtin.NAMESPACE, namespace)
