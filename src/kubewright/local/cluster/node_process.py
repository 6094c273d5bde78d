"""The processes of a cluster's nodes: start them, watch over them, end them."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kubewright.api import builtin
from kubewright.api.conditions import is_condition_true
from kubewright.api.errors import ConfigurationError
from kubewright.local.cluster.directory import ClusterDirectory
from kubewright.local.cluster.options import ClusterOptions

if TYPE_CHECKING:
    from kubewright.client.client import Client

READY_SECONDS = 30.0
_STOP_SECONDS = 40.0
_RESTART_SECONDS = 1.0

_logger = logging.getLogger(__name__)


_SIMULATED = IPv4Network("10.128.0.0/9")


class PodRuntimeChoice(msgspec.Struct, frozen=True):
    """How pods will run; `note` says why they are simulated although nobody asked for that."""

    is_simulated: bool
    note: str = ""

    @property
    def name(self) -> str:
        """The word for it in the cluster's record."""
        return "simulated" if self.is_simulated else "process"


async def choose_pod_runtime(options: ClusterOptions) -> PodRuntimeChoice:
    """Choose processes where this machine allows them, and simulated pods elsewhere."""
    if options.simulated or not options.nodes:
        return PodRuntimeChoice(options.simulated)
    # The node and what it needs are imported only by a cluster that has nodes.
    from kubewright.local.node import detect_runtime

    detection = await detect_runtime()
    return PodRuntimeChoice(is_simulated=not detection.processes, note=detection.reason)


def plan_simulated_cidrs(count: int) -> list[str]:
    """Return a /20 for each node whose pods are simulated: nobody routes to made-up addresses.

    Raises:
        ConfigurationError: there are not that many.
    """
    networks = [str(network) for network in _SIMULATED.subnets(new_prefix=20)]
    if count > len(networks):
        raise ConfigurationError(f"there are addresses for {len(networks)} simulated nodes")
    return networks[:count]


async def choose_pod_cidrs(count: int) -> list[str]:
    """Choose a /24 of 10.244.0.0/16 for each node, none of which this machine has a route to.

    One process chooses for all nodes: each for itself, two could take the same. Where a node of
    another cluster is quicker, the node takes yet another one.

    Raises:
        ConfigurationError: there are not enough free ones.
    """
    if not count:
        return []
    from kubewright.local.node.pod_addresses import choose_network, read_host_routes

    taken = await read_host_routes()
    chosen: list[str] = []
    for _ in range(count):
        network = choose_network(taken)
        taken.append(network)
        chosen.append(str(network))
    return chosen


class NodeProcess:
    """One node: a process of its own, since it enters namespaces and may be killed alone.

    `volumes` is the folder in which the persistent volumes of all nodes are.
    """

    def __init__(
        self,
        name: str,
        directory: ClusterDirectory,
        *,
        simulated: bool,
        pod_cidr: str,
        volumes: Path,
    ) -> None:
        self.name = name
        self._volumes = volumes / name
        self._pod_cidr = pod_cidr
        self._directory = directory
        self._simulated = simulated
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline = -1

    @asynccontextmanager
    async def started(self) -> AsyncIterator[NodeProcess]:
        """Run the process while the context lasts; at its end its pods end with it."""
        # Pods outlive a node process that is killed, and the next takes them over. The writing end
        # of this pipe is only here: however the supervisor ends, they end with it.
        self._lifeline, held = os.pipe()
        try:
            self._process = await self._spawn()
            try:
                yield self
            finally:
                await self._stop(self._process)
        finally:
            os.close(held)
            os.close(self._lifeline)

    async def supervise(self) -> None:
        """Start the process again whenever it ends."""
        while True:
            assert self._process is not None, "started() comes first"
            code = await self._process.wait()
            _logger.warning("%s ended with code %s and is started again", self.name, code)
            await asyncio.sleep(_RESTART_SECONDS)
            self._process = await self._spawn()

    async def wait_ready(self, client: Client) -> None:
        """Wait until the Node object says Ready.

        Raises:
            ConfigurationError: it does not within 30 seconds.
        """
        try:
            async with (
                asyncio.timeout(READY_SECONDS),
                client.watch(
                    builtin.NODE, fields={"metadata.name": self.name}, send_initial_events=True
                ) as events,
            ):
                async for event in events:
                    if is_condition_true(msgspec.json.decode(event.raw), "Ready"):
                        return
        except TimeoutError:
            raise ConfigurationError(
                f"{self.name} is not ready after {READY_SECONDS:.0f} s: see {self._directory.log}"
            ) from None

    async def _spawn(self) -> asyncio.subprocess.Process:
        arguments = ["--name", self.name, "--kubeconfig", str(self._directory.kubeconfig)]
        arguments += ["--dir", str(self._directory.node_state / self.name)]
        arguments += ["--volumes", str(self._volumes)]
        arguments += ["--pod-cidr", self._pod_cidr, "--any-pod-cidr"]
        arguments += ["--lifeline", str(self._lifeline)]
        arguments += ["--simulated"] if self._simulated else []
        # The node ends when its standard input does: so it never outlives a killed supervisor.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kubewright.local.node", "--exit-with-parent", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=sys.stderr,
            pass_fds=[self._lifeline],
        )

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            _logger.warning("%s did not end and is killed", self.name)
            process.kill()
            await process.wait()
