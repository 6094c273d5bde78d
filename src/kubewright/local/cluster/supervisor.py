"""Run a cluster in this process: the API server, the controllers, and a process for each node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, ConfigurationError
from kubewright.api.time import format_time
from kubewright.client import event_loop
from kubewright.local.apiserver import RunningServer, ServerOptions, serve
from kubewright.local.cluster.directory import ClusterDirectory, ClusterRecord
from kubewright.local.cluster.node_process import (
    NodeProcess,
    PodRuntimeChoice,
    choose_pod_cidrs,
    choose_pod_runtime,
    plan_simulated_cidrs,
)
from kubewright.local.cluster.options import ClusterOptions
from kubewright.runtime.signals import run_until_signal

if TYPE_CHECKING:
    from kubewright.client.client import Client
    from kubewright.runtime.manager import Manager

OnReady: TypeAlias = Callable[[ClusterRecord], None]

_logger = logging.getLogger(__name__)


def run(options: ClusterOptions, on_ready: OnReady) -> int:
    """Run a cluster until SIGTERM or SIGINT.

    `on_ready` is called once, when the API server answers, the controllers watch and the nodes are
    Ready. Guarantees: when this returns, or when the process is killed, no process, namespace or
    mount of the cluster is left.

    Raises:
        ConfigurationError: a cluster of this name runs already, the port is taken, or a folder
            cannot be used.
    """
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname).1s %(name)s %(message)s",
        stream=sys.stderr,
    )
    directory = ClusterDirectory(options.name)
    with directory.locked():
        directory.remove_record()
        directory.remove_volumes()
        try:
            event_loop.run(run_until_signal(_Supervisor(options, directory, on_ready).run()))
        finally:
            directory.remove_record()
            directory.remove_volumes()
    return 0


class _Supervisor:
    """One run of a cluster."""

    def __init__(
        self, options: ClusterOptions, directory: ClusterDirectory, on_ready: OnReady
    ) -> None:
        self._options = options
        self._directory = directory
        self._on_ready = on_ready

    async def run(self) -> None:
        """Serve until cancelled."""
        options = self._options
        try:
            async with serve(
                ServerOptions(
                    folder=options.data_dir or self._directory.certificates,
                    port=options.port,
                    persistent=options.data_dir is not None,
                )
            ) as server:
                await self._run_clients(server)
        except OSError as error:
            raise ConfigurationError(_explain(error, options)) from error

    async def _run_clients(self, server: RunningServer) -> None:
        kubeconfig = server.kubeconfig(self._directory.kubeconfig)
        if self._options.kubeconfig is not None:
            kubeconfig = server.kubeconfig(self._options.kubeconfig)
        choice = await choose_pod_runtime(self._options)
        client = await self._build_client(server)
        if self._options.data_dir is not None and not self._options.serves_metrics:
            from kubewright.local.metrics_server.registration import ensure_no_registration

            await ensure_no_registration(client)
        manager = self._build_manager(client, server.ca)
        async with contextlib.AsyncExitStack() as stack:
            nodes = [
                await stack.enter_async_context(node.started())
                for node in await self._build_nodes(choice)
            ]
            async with asyncio.TaskGroup() as group:
                group.create_task(manager.run(), name="controllers")
                for node in nodes:
                    group.create_task(node.supervise(), name=node.name)
                await manager.wait_ready()
                if nodes:
                    await ensure_storage_class(client)
                for node in nodes:
                    await node.wait_ready(client)
                self._announce(server, kubeconfig, nodes, choice)

    async def _build_client(self, server: RunningServer) -> Client:
        # The controllers' code is as much as the server's. It loads in a thread, so that the server
        # answers meanwhile; the functions below find it there.
        await asyncio.to_thread(import_module, "kubewright.local.controllers.registry")
        if self._options.serves_metrics:
            await asyncio.to_thread(import_module, "kubewright.local.metrics_server.server")
        from kubewright.client.client import Client

        return Client(server.client_transport(), field_manager="kubewright-controllers")

    def _build_manager(self, client: Client, root_ca: str) -> Manager:
        from kubewright.local.controllers import add_controllers
        from kubewright.runtime.manager import Manager

        manager = Manager(client)
        add_controllers(manager, self._options.controllers, root_ca=root_ca)
        if self._options.serves_metrics:
            from kubewright.local.metrics_server import MetricsServer

            manager.add(MetricsServer(manager.environment))
        return manager

    async def _build_nodes(self, choice: PodRuntimeChoice) -> list[NodeProcess]:
        self._directory.remove_node_facts()
        count = self._options.nodes
        networks = (
            plan_simulated_cidrs(count) if choice.is_simulated else await choose_pod_cidrs(count)
        )
        # Volumes are kept where the objects are that know them.
        data_dir = self._options.data_dir
        kept = None if data_dir is None else (data_dir / "volumes").absolute()
        return [
            NodeProcess(
                f"node-{number}",
                self._directory,
                simulated=choice.is_simulated,
                pod_cidr=network,
                volumes=kept or self._directory.volumes,
            )
            for number, network in enumerate(networks, start=1)
        ]

    def _announce(
        self,
        server: RunningServer,
        kubeconfig: Path,
        nodes: list[NodeProcess],
        choice: PodRuntimeChoice,
    ) -> None:
        record = ClusterRecord(
            name=self._options.name,
            pid=os.getpid(),
            server=server.url,
            kubeconfig=str(kubeconfig),
            controllers=list(self._options.controllers),
            nodes=[node.name for node in nodes],
            runtime=choice.name if nodes else "",
            note=choice.note if nodes else "",
            started=format_time(datetime.now(UTC)),
        )
        self._directory.write_record(record)
        _logger.info("cluster %s is ready at %s", record.name, record.server)
        self._on_ready(record)


async def ensure_storage_class(client: Client) -> None:
    """Make the class `standard`; the default, unless another class is that already.

    One that is there is left as it is: it may have been changed.
    """
    from kubewright.local.storage.claim import find_default_class
    from kubewright.local.storage.local_volume import build_storage_class

    classes = list(await client.list(builtin.STORAGE_CLASS))
    storage_class = build_storage_class(default=find_default_class(classes) is None)
    with contextlib.suppress(AlreadyExists):
        await client.create(storage_class)


def _explain(error: OSError, options: ClusterOptions) -> str:
    if options.port and "address already in use" in str(error).lower():
        return f"port {options.port} is in use: choose another --port, or 0 for a free one"
    where = f" in {options.data_dir}" if options.data_dir else ""
    return f"cluster {options.name!r} cannot run{where}: {error}"
