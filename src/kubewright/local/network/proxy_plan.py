"""What the node relays, rather than the kernel: node ports on the host, backends outside. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network

import msgspec

from kubewright.local.network.relays import KINDS, Frontend, Target
from kubewright.local.network.service import KUBERNETES
from kubewright.local.network.service_routes import Backend, Route

LOOPBACK = "127.0.0.1"


def add_api_server(routes: Iterable[Route], server: Backend | None) -> list[Route]:
    """Lead the Service of the API to its server, where no endpoints say otherwise.

    A server that only this machine reaches must not publish its address: EndpointSlices hold no
    loopback addresses.
    """
    found = []
    for route in routes:
        if route.service == KUBERNETES and not route.internal and server is not None:
            route = msgspec.structs.replace(route, internal=(server,), external=(server,))
        found.append(route)
    return found


def without_own(routes: Iterable[Route], own: str) -> list[Route]:
    """Leave the address out that the node itself serves, where no endpoints say otherwise."""
    return [route for route in routes if own not in route.addresses or route.internal]


def plan_outside(
    routes: Iterable[Route], networks: Sequence[IPv4Network], gateway: str
) -> dict[Frontend, Target]:
    """Plan a relay for each backend that pods cannot reach: one outside the pods' networks."""
    relays = {}
    for route in routes:
        if route.protocol not in KINDS:
            continue
        for backend in {*route.internal, *route.external}:
            if not is_inside(backend, networks):
                frontend = outside_frontend(route.protocol, backend, gateway)
                relays[frontend] = Target(on_host=True, backends=(backend,))
    return relays


def outside_frontend(protocol: str, backend: Backend, gateway: str) -> Frontend:
    """Return where connections for a backend outside are taken: at any port of the node."""
    name = f"{backend.address}:{backend.port}"
    return Frontend(on_host=False, protocol=protocol, address=gateway, port=0, name=name)


def is_inside(backend: Backend, networks: Sequence[IPv4Network]) -> bool:
    """Tell whether pods reach a backend by its own address."""
    address = IPv4Address(backend.address)
    return any(address in network for network in networks)


def lead_inside(
    routes: Iterable[Route],
    networks: Sequence[IPv4Network],
    gateway: str,
    port_of: Callable[[Frontend], int],
) -> list[Route]:
    """Replace backends outside by their relays; one that has none is left out."""

    def replace(route: Route, backends: tuple[Backend, ...]) -> tuple[Backend, ...]:
        found = []
        for backend in backends:
            if is_inside(backend, networks):
                found.append(backend)
            elif port := port_of(outside_frontend(route.protocol, backend, gateway)):
                found.append(Backend(gateway, port))
        return tuple(found)

    return [
        msgspec.structs.replace(
            route,
            internal=replace(route, route.internal),
            external=replace(route, route.external),
        )
        for route in routes
    ]


def plan_node_ports(routes: Iterable[Route], gateway: str) -> dict[Frontend, Target]:
    """Plan how node ports are reached from the host itself: at its loopback address."""
    return {
        Frontend(on_host=True, protocol=route.protocol, address=LOOPBACK, port=route.node_port):
        # By way of the node's address in the network, where the rules for node ports are met.
        Target(on_host=False, backends=(Backend(gateway, route.node_port),))
        for route in routes
        if route.node_port and route.external and route.protocol in KINDS
    }


def plan_services(routes: Iterable[Route], gateway: str) -> dict[Frontend, Target]:
    """Plan relays for all Services, for a kernel that cannot lead connections itself."""
    relays = {}
    for route in routes:
        if route.protocol not in KINDS:
            continue
        seconds = route.affinity_seconds
        places = [(address, route.port, route.internal) for address in route.addresses]
        if route.node_port:
            places.append((gateway, route.node_port, route.external))
        for address, port, backends in places:
            if backends:
                frontend = Frontend(
                    on_host=False, protocol=route.protocol, address=address, port=port
                )
                relays[frontend] = Target(
                    on_host=False, backends=backends, affinity_seconds=seconds
                )
    return relays
