"""Where connections to Services go: the endpoints that each address and port leads to. Pure.

Which endpoints count follows kube-proxy: ready ones; where there are none, those that end but still
serve (KEP-1669); with a `Local` policy only those of this node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubewright.api.resource import NamespacedName
from kubewright.local.network.service import Endpoint, Service, ServicePort
from kubewright.local.network.service_directory import ServiceDirectory

LOCAL = "Local"
DEFAULT_AFFINITY_SECONDS = 10800


class Backend(msgspec.Struct, frozen=True, order=True):
    """An address and port that takes connections."""

    address: str
    port: int


class Route(msgspec.Struct, frozen=True):
    """One port of a Service and where it leads.

    `internal` are the backends of its virtual addresses, `external` those of its node port. One
    that `drops` has backends, but none that its policy allows: connections are not answered.
    """

    service: NamespacedName
    name: str
    protocol: str
    addresses: tuple[str, ...]
    port: int
    node_port: int
    internal: tuple[Backend, ...]
    external: tuple[Backend, ...]
    internal_drops: bool = False
    external_drops: bool = False
    external_is_local: bool = False
    affinity_seconds: int = 0


def build_routes(directory: ServiceDirectory, node: str, zone: str = "") -> list[Route]:
    """Build the routes of all Services, as one node of a zone sees them, in order of names."""
    services = sorted(directory.services, key=lambda service: service.metadata.key)
    return [
        build_route(directory, service, port, node, zone)
        for service in services
        if service.addresses
        for port in service.ports
    ]


def build_route(
    directory: ServiceDirectory, service: Service, port: ServicePort, node: str, zone: str = ""
) -> Route:
    """Build the route of one port of a Service."""
    spec, key = service.spec, service.metadata.key
    found = [*find_endpoints(directory, key, port)]
    everywhere = choose_backends(prefer_near(found, node, zone))
    here = choose_backends((e, b) for e, b in found if e.node_name == node)
    internal_local = spec.internal_traffic_policy == LOCAL
    external_local = spec.external_traffic_policy == LOCAL
    addresses = (*service.addresses, *(spec.external_ips or ()))
    return Route(
        service=key,
        name=port.name,
        protocol=port.protocol,
        addresses=tuple(address for address in addresses if ":" not in address),
        port=port.port,
        node_port=port.node_port,
        internal=here if internal_local else everywhere,
        external=here if external_local else everywhere,
        internal_drops=internal_local and not here and bool(everywhere),
        external_drops=external_local and not here and bool(everywhere),
        external_is_local=external_local,
        affinity_seconds=find_affinity(service),
    )


def find_affinity(service: Service) -> int:
    """Return for how many seconds a client stays with a backend; 0 without affinity."""
    spec = service.spec
    if spec.session_affinity != "ClientIP":
        return 0
    config = spec.session_affinity_config
    chosen = config.client_ip.timeout_seconds if config and config.client_ip else None
    return chosen or DEFAULT_AFFINITY_SECONDS


def find_endpoints(
    directory: ServiceDirectory, key: NamespacedName, port: ServicePort
) -> Iterator[tuple[Endpoint, Backend]]:
    """Yield the endpoints of a port, with the address and port of each."""
    for found in directory.slices_of(key):
        if found.address_type != "IPv4":
            continue
        for entry in found.ports or ():
            if (entry.name or "") != port.name or (entry.protocol or "TCP") != port.protocol:
                continue
            if entry.port is None:
                continue
            for endpoint in found.endpoints or ():
                # Further addresses of an endpoint have no meaning (API reference).
                for address in endpoint.addresses[:1]:
                    yield endpoint, Backend(address, entry.port)


def prefer_near(
    found: Sequence[tuple[Endpoint, Backend]], node: str, zone: str
) -> Sequence[tuple[Endpoint, Backend]]:
    """Keep to the endpoints that hints give to this node, or to its zone (KEP-3015, KEP-2433).

    Hints count only when every ready endpoint has them and one is for here: else all are used.
    """
    ready = [endpoint for endpoint, _ in found if endpoint.is_ready]
    for name, hints_of in ((node, node_hints), (zone, zone_hints)):
        hints = [hints_of(endpoint) for endpoint in ready]
        if name and all(hints) and any(name in names for names in hints):
            return [(e, b) for e, b in found if e.is_ready and name in hints_of(e)]
    return found


def node_hints(endpoint: Endpoint) -> set[str]:
    """Return the nodes that an endpoint is for."""
    return endpoint.hints.nodes


def zone_hints(endpoint: Endpoint) -> set[str]:
    """Return the zones that an endpoint is for."""
    return endpoint.hints.zones


def choose_backends(found: Iterable[tuple[Endpoint, Backend]]) -> tuple[Backend, ...]:
    """Choose the endpoints that take new connections, each once, in order."""
    listed: Sequence[tuple[Endpoint, Backend]] = list(found)
    chosen = [backend for endpoint, backend in listed if endpoint.is_ready]
    if not chosen:
        chosen = [b for endpoint, b in listed if endpoint.is_serving and endpoint.is_terminating]
    return tuple(sorted(set(chosen)))
