"""Leads connections to Services to their endpoints: by the kernel, or else by relaying them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Network
from random import Random

from kubewright.api.errors import KubewrightError
from kubewright.api.resource import NamespacedName
from kubewright.client.clock import Clock
from kubewright.local.network.connection_table import ConnectionTable
from kubewright.local.network.departures import Departures
from kubewright.local.network.namespace import NetworkNamespace
from kubewright.local.network.netlink import KernelRefused, PacketFilter
from kubewright.local.network.network_policy import (
    AddressRange,
    Allowance,
    Isolation,
    PolicyPod,
    PortRange,
)
from kubewright.local.network.policy_rules import Detour, build_policy_rules
from kubewright.local.network.proxy_plan import (
    add_api_server,
    lead_inside,
    plan_node_ports,
    plan_outside,
    plan_services,
    without_own,
)
from kubewright.local.network.relays import Relays
from kubewright.local.network.ruleset import UDP, Ruleset, merge, plan_changes, plan_table
from kubewright.local.network.service_directory import ServiceDirectory
from kubewright.local.network.service_routes import Backend, Route, build_routes
from kubewright.local.network.service_rules import build_service_rules, pack_address

_logger = logging.getLogger(__name__)

TABLE, TRIAL = "kubewright", "kubewright-trial"
QUIET_SECONDS = 0.02
"""What changes within this time is brought to the kernel at once; the first change is at once."""
RETRY_SECONDS = 10.0
"""How often a port that another process had is tried again."""


class ServiceProxy:
    """Keeps one node's way to Services as the API has it.

    Where the kernel leads connections, it also keeps to NetworkPolicies. `policies` returns what
    isolated pods are allowed; `refuse_policies` tells that nobody keeps to them.

    Level-triggered: each round builds all rules from what the directory holds now, and sends the
    kernel what differs from the last ones. Connections that were made keep their backend.
    """

    def __init__(
        self,
        directory: ServiceDirectory,
        namespace: NetworkNamespace,
        node: str,
        *,
        networks: Callable[[], Sequence[IPv4Network]],
        own_address: Callable[[], str],
        zone: Callable[[], str] = str,
        policies: Callable[[], Awaitable[Sequence[Isolation]]],
        refuse_policies: Callable[[], None],
        api_server: Backend | None,
        clock: Clock,
        random: Random,
    ) -> None:
        self._directory = directory
        self._namespace = namespace
        self._node = node
        self._networks = networks
        self._own_address = own_address
        self._zone = zone
        self._policies = policies
        self._refuse_policies = refuse_policies
        self._api_server = api_server
        self._clock = clock
        self._random = random
        self._filter: PacketFilter | None = None
        self._rules: Ruleset | None = None
        self._addresses: set[str] = set()
        self._connections: ConnectionTable | None = None
        self._datagram_backends: set[tuple[bytes, int]] = set()
        self._changed = asyncio.Event()
        self.departures = Departures()

    def wake(self) -> None:
        """Look again: something has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Lead connections until cancelled. Raises NetworkError."""
        self._filter = await self._open_filter()
        if self._filter is not None:
            self._connections = ConnectionTable(await self._namespace.open_socket("netfilter"))
        try:
            async with asyncio.TaskGroup() as group:
                relays = Relays(self._namespace, self._clock, self._random, group)
                try:
                    await self._keep(relays)
                finally:
                    relays.close()
        finally:
            for opened in (self._filter, self._connections):
                if opened is not None:
                    opened.close()

    async def _keep(self, relays: Relays) -> None:
        while True:
            self._changed.clear()
            staying = self._directory.staying_addresses()
            complete = await self._sync(relays)
            self.departures.note(staying)
            await self._clock.sleep(QUIET_SECONDS)
            await self._wait(None if complete else RETRY_SECONDS)

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _open_filter(self) -> PacketFilter | None:
        """Open the kernel's packet filter, if it can do all that is needed."""
        packet_filter = None
        try:
            packet_filter = PacketFilter(await self._namespace.open_socket("netfilter"))
            # Tried in a table beside: rules of an agent before this one hold until there are new.
            packet_filter.commit(plan_table(TRIAL))
            packet_filter.commit(plan_changes(TRIAL, Ruleset(), build_trial_rules()))
            packet_filter.commit(plan_table(TRIAL)[:2])
        except (KubewrightError, OSError) as error:
            _logger.info("connections to Services are relayed: %s", error)
            if packet_filter is not None:
                packet_filter.close()
            return None
        return packet_filter

    async def _sync(self, relays: Relays) -> bool:
        """Bring rules and relays to what they should be; return whether all could be had."""
        gateway, networks = self._namespace.gateway, self._networks()
        routes = build_routes(self._directory, self._node, self._zone())
        routes = without_own(add_api_server(routes, self._api_server), self._own_address())
        outside = plan_outside(routes, networks, gateway)
        wanted = {**outside, **plan_node_ports(routes, gateway)}
        # The ports of relays are known only when they listen, and rules name them.
        complete = await relays.ensure(outside)
        routes = lead_inside(routes, networks, gateway, relays.port_of)
        if self._filter is None:
            self._refuse_policies()
            await self._add_addresses(routes)
            wanted.update(plan_services(routes, gateway))
        else:
            detours = [
                Detour(frontend.protocol, backend, relays.port_of(frontend))
                for frontend, target in outside.items()
                for backend in target.backends
            ]
            policies = build_policy_rules(await self._policies(), gateway, detours)
            rules = merge([build_service_rules(routes, gateway), policies])
            complete &= self._commit(self._filter, rules)
            self._forget_datagrams(routes)
        return await relays.apply(wanted) and complete

    async def _add_addresses(self, routes: Sequence[Route]) -> None:
        for address in {address for route in routes for address in route.addresses}:
            if address not in self._addresses:
                await self._namespace.add_address(address)
                self._addresses.add(address)

    def _forget_datagrams(self, routes: Sequence[Route]) -> None:
        """Let clients of datagram services come to other backends when theirs is gone."""
        backends = {
            (pack_address(backend.address), backend.port)
            for route in routes
            if route.protocol == "UDP"
            for backend in (*route.internal, *route.external)
        }
        gone, self._datagram_backends = self._datagram_backends - backends, backends
        if gone and self._connections is not None:
            self._connections.forget(UDP, gone)

    def _commit(self, packet_filter: PacketFilter, rules: Ruleset) -> bool:
        fresh = plan_table(TABLE) if self._rules is None else []
        try:
            packet_filter.commit([*fresh, *plan_changes(TABLE, self._rules or Ruleset(), rules)])
        except KernelRefused as error:
            # Nothing of it was done: the next round compares with the same rules again.
            _logger.warning("rules for Services were not brought up to date: %s", error)
            return False
        self._rules = rules
        return True


def build_trial_rules() -> Ruleset:
    """Build rules of every kind that may be needed, to learn whether the kernel knows them."""
    backends = tuple(Backend(f"192.0.2.{number}", 80) for number in (1, 2))
    route = Route(
        service=NamespacedName("", ""),
        name="",
        protocol="TCP",
        addresses=("192.0.2.3",),
        port=80,
        node_port=80,
        internal=backends,
        external=backends,
        affinity_seconds=1,
    )
    ports = (PortRange("TCP", 1, 2),)
    ranges = (AddressRange(IPv4Network("192.0.2.0/24"), (IPv4Network("192.0.2.0/25"),)),)
    allowances = (Allowance("", frozenset(["192.0.2.1"]), ranges, ports),)
    pod = PolicyPod(NamespacedName("", ""), "192.0.2.1", {})
    isolations = [Isolation(pod, allowances, allowances)]
    gateway = "192.0.2.4"
    policies = build_policy_rules(isolations, gateway)
    return merge([build_service_rules([route], gateway), policies])
