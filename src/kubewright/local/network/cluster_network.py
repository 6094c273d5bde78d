"""The cluster network on one node: brings what pods can reach to what the API says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from random import Random, SystemRandom

from kubewright.api.builtin import NAMESPACE, NODE, SERVICE
from kubewright.api.errors import KubewrightError
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.client.requests import PatchType
from kubewright.local.network.directory_feed import DirectoryFeed
from kubewright.local.network.dns_service import PORT, ensure_dns_service
from kubewright.local.network.dns_zone import ClusterZone
from kubewright.local.network.namespace import NetworkNamespace, SocketKind
from kubewright.local.network.node_link import LINK_ANNOTATION, NodeLink, find_peers
from kubewright.local.network.policy_feed import PolicyFeed
from kubewright.local.network.service import ENDPOINT_SLICE, HEADLESS
from kubewright.local.network.service_directory import ServiceDirectory
from kubewright.local.network.service_proxy import ServiceProxy
from kubewright.local.network.service_routes import Backend
from kubewright.runtime.events import EventRecorder

_logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
PREPARE_TRIES = 5
NOT_ENFORCED = (
    "does not keep to NetworkPolicies: the packet filter of its kernel (nf_tables) cannot be used"
)
ZONE = "topology.kubernetes.io/zone"
RESOLVER = Path("/etc/resolv.conf")


class ClusterNetwork:
    """Names and Services for the pods of one node.

    `folder` is the node's own, where other nodes reach it.
    `prepare` finds the name server's address, which pods are told when they start; `run` serves.
    A `cache` is run by whoever gave it. `api_server` is where the API is served, as the host
    reaches it: pods reach it by its Service.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        namespace: NetworkNamespace,
        node: str,
        folder: Path,
        *,
        clock: Clock,
        recorder: EventRecorder,
        api_server: Backend | None = None,
        domain: str = "cluster.local",
        random: Random | None = None,
    ) -> None:
        self._client = client
        self._node = node
        self._socket = folder.absolute() / "network.sock"
        self._link = NodeLink(namespace, self._socket)
        self._nodes_changed = asyncio.Event()
        self._namespace = namespace
        self._clock = clock
        self._random = random or SystemRandom()
        self._directory = ServiceDirectory()
        self._dns_address = ""
        self._has_own_dns = False
        self._proxy = ServiceProxy(
            self._directory,
            namespace,
            node,
            networks=self._list_networks,
            policies=lambda: self._policies.read(self._dns_address if self._has_own_dns else ""),
            refuse_policies=self._refuse_policies,
            zone=self._find_zone,
            own_address=lambda: self._dns_address if self._has_own_dns else "",
            api_server=api_server,
            clock=clock,
            random=self._random,
        )
        self._services = cache.store(SERVICE)
        self._slices = cache.store(ENDPOINT_SLICE)
        self._namespaces = cache.store(NAMESPACE, metadata_only=True)
        self._nodes = cache.store(NODE)
        self._policies = PolicyFeed(cache, self._namespaces, node, self._proxy.wake)
        self._recorder = recorder
        self._refused: set[str] = set()
        self._zone = ClusterZone(
            self._directory,
            lambda name: self._namespaces.get(NamespacedName("", name)) is not None,
            domain=domain,
            serial=lambda: int(clock.now().timestamp()),
        )

    @property
    def dns_address(self) -> str:
        """The address of the name server; "" before `prepare`."""
        return self._dns_address

    async def wait_left(self, address: str, seconds: float) -> None:
        """Wait until no Service of this node leads to an address that ends, or for a time."""
        await self._proxy.departures.wait(address, seconds)

    async def prepare(self) -> None:
        """Find the name server's address, and make its Service where there is none.

        A cluster that refuses is served without: its pods have the node's own address instead.
        """
        for _ in range(PREPARE_TRIES):
            try:
                service = await ensure_dns_service(self._client)
            except KubewrightError as error:
                _logger.warning("the Service of the name server cannot be had: %s", error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            spec = service["spec"]
            # One with a selector leads to a name server in pods, as in other clusters.
            self._has_own_dns = not spec.get("selector")
            address = spec.get("clusterIP") or HEADLESS
            self._dns_address = "" if address == HEADLESS else address
            break
        if not self._dns_address:
            self._has_own_dns, self._dns_address = True, self._namespace.gateway

    async def run(self) -> None:
        """Serve until cancelled. Raises NetworkError."""
        # What is not known yet must not look like what is gone.
        for store in (self._services, self._slices, self._nodes, self._namespaces):
            await store.wait_synced()
        wake = self._proxy.wake
        DirectoryFeed(self._services, self._slices, self._directory, wake)
        self._nodes.subscribe(self._note_node)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._link.run(), name="link")
            group.create_task(self._keep_links(), name="links")
            group.create_task(self._proxy.run(), name="services")
            if self._has_own_dns:
                group.create_task(self._serve_names(), name="dns")

    def _refuse_policies(self) -> None:
        """Tell, once for each policy, that this node does not keep to it."""
        entries = {entry.meta.uid: entry for entry in self._policies.policies}
        for uid in entries.keys() - self._refused:
            note = f"{self._node} {NOT_ENFORCED}"
            self._recorder.event(entries[uid].object(), "Warning", "NotEnforced", note)
        self._refused = set(entries)

    def _note_node(self, change: Change) -> None:
        self._nodes_changed.set()
        self._proxy.wake()

    async def _keep_links(self) -> None:
        """Tell the other nodes where this one takes packets, and learn where they do."""
        while True:
            self._nodes_changed.clear()
            nodes = [entry.object() for entry in self._nodes.list()]
            retry = None
            try:
                await self._link.connect(find_peers(nodes, self._node))
                await self._announce(nodes)
            except KubewrightError as error:
                _logger.warning("the ways to other nodes are not up to date: %s", error)
                retry = RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(retry):
                    await self._nodes_changed.wait()

    async def _announce(self, nodes: Sequence[Object]) -> None:
        mine = next((node for node in nodes if node["metadata"]["name"] == self._node), None)
        annotations = (mine["metadata"].get("annotations") or {}) if mine else None
        told = {LINK_ANNOTATION: str(self._socket)}
        if annotations is not None and told.items() - annotations.items():
            body = {"metadata": {"annotations": told}}
            await self._client.patch(NODE, self._node, body, type=PatchType.MERGE)

    def _find_zone(self) -> str:
        entry = self._nodes.get(NamespacedName("", self._node))
        return (entry.meta.labels or {}).get(ZONE, "") if entry else ""

    def _list_networks(self) -> Sequence[IPv4Network]:
        """List the networks of all nodes' pods."""
        found = {self._namespace.cidr}
        for entry in self._nodes.list():
            found.update(entry.object().get("spec", {}).get("podCIDRs") or ())
        return [IPv4Network(cidr) for cidr in sorted(found) if ":" not in cidr]

    async def _serve_names(self) -> None:
        # The DNS library is loaded beside what else starts.
        await asyncio.to_thread(__import__, "kubewright.local.network.dns_server")
        from kubewright.local.network.dns_server import DNSServer, read_name_servers
        from kubewright.local.network.upstream_resolver import UpstreamResolver

        def servers() -> Sequence[str]:
            text = RESOLVER.read_text(errors="replace") if RESOLVER.exists() else ""
            return read_name_servers(text)

        server = DNSServer(
            self._zone, UpstreamResolver(servers, random=self._random), random=self._random
        )
        await self._namespace.add_address(self._dns_address)
        datagrams = await self._bind("udp", self._dns_address, PORT)
        listener = await self._bind("tcp", self._dns_address, PORT)
        await server.serve(datagrams, listener)

    async def _bind(self, kind: SocketKind, address: str, port: int) -> socket.socket:
        bound = await self._namespace.open_socket(kind)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
        return bound
