"""Rules that lead connections to Services to their backends. Pure.

Connections that were made keep their backend, whatever rules change to: the kernel remembers each.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from kubewright.local.network.ruleset import (
    DROP,
    GOTO,
    JUMP,
    OUTPUT,
    POSTROUTING,
    PREROUTING,
    PROTOCOLS,
    TCP,
    Chain,
    Hook,
    Rule,
    Ruleset,
    Set,
    Verdict,
    conclude,
    equals,
    follow_map,
    has_mark,
    in_set,
    load_port,
    load_protocol,
    load_source,
    load_target,
    one_in,
    refuse,
    remember_source,
    reset,
    seem_to_be,
    set_mark,
    translate_to,
)
from kubewright.local.network.service_routes import Backend, Route

NAT_TARGET, NAT_SOURCE = -100, 100
AFTER_NAT = NAT_TARGET + 10
FROM_NODE = 0x4000
SERVICE_PORTS, NODE_PORTS, ADDRESSES = "service-ports", "node-ports", "service-addresses"


def build_service_rules(routes: Iterable[Route], gateway: str) -> Ruleset:
    """Build the rules of all routes. `gateway` is the node's address, which has the node ports."""
    chains: dict[str, Chain] = {}
    sets: dict[str, Set] = {}
    ports: dict[bytes, Verdict] = {}
    node_ports: dict[bytes, Verdict] = {}
    addresses: set[bytes] = set()
    for route in routes:
        if route.protocol not in PROTOCOLS:
            continue
        addresses.update(map(pack_address, route.addresses))
        key = _port_key(route.protocol, route.port)
        target = _add_choice(chains, sets, route, route.internal)
        if target is not None or route.internal_drops:
            found = Verdict(GOTO, target) if target else Verdict(DROP)
            ports.update({pack_address(address) + key: found for address in route.addresses})
        if route.node_port and route.external_drops:
            node_ports[_port_key(route.protocol, route.node_port)] = Verdict(DROP)
        elif route.node_port and route.external:
            entry = _add_node_port(chains, sets, route)
            node_ports[_port_key(route.protocol, route.node_port)] = Verdict(GOTO, entry)
    sets[SERVICE_PORTS] = Set(12, verdicts=ports)
    sets[NODE_PORTS] = Set(8, verdicts=node_ports)
    sets[ADDRESSES] = Set(4, keys=frozenset(addresses))
    return Ruleset({**chains, **_base_chains(gateway)}, sets)


def _base_chains(gateway: str) -> dict[str, Chain]:
    to_service: Rule = (load_target(0), load_protocol(1), load_port(2), follow_map(SERVICE_PORTS))
    is_node = (load_target(), equals(pack_address(gateway)))
    to_node: Rule = (*is_node, load_protocol(0), load_port(1), follow_map(NODE_PORTS))
    # What leads to a Service's address and was not led elsewhere has no backend.
    to_nobody = load_target(), in_set(ADDRESSES)
    is_stream = load_protocol(), equals(bytes([TCP]))
    unserved: tuple[Rule, ...] = ((*to_nobody, *is_stream, reset()), (*to_nobody, refuse()))
    from_node: Rule = (*has_mark(FROM_NODE), *seem_to_be(pack_address(gateway)))
    services: Rule = (conclude(JUMP, "services"),)
    return {
        "services": Chain((to_service, to_node)),
        "service-targets": Chain((services,), Hook("nat", PREROUTING, NAT_TARGET)),
        "own-service-targets": Chain((services,), Hook("nat", OUTPUT, NAT_TARGET)),
        "service-sources": Chain((from_node,), Hook("nat", POSTROUTING, NAT_SOURCE)),
        "unserved": Chain(unserved, Hook("filter", PREROUTING, AFTER_NAT)),
        "own-unserved": Chain(unserved, Hook("filter", OUTPUT, AFTER_NAT)),
    }


def _add_node_port(chains: dict[str, Chain], sets: dict[str, Set], route: Route) -> str:
    """Add the chain of a node port; return its name."""
    target = _add_choice(chains, sets, route, route.external)
    assert target is not None, "only a route with backends has a node port"
    name = f"node-{digest(route.service, route.name, route.protocol)}"
    # Answers of a backend on another node must come back this way. With the policy Local there is
    # none, and the backend sees who asks.
    marked: tuple[Rule, ...] = () if route.external_is_local else (set_mark(FROM_NODE),)
    chains[name] = Chain((*marked, (conclude(GOTO, target),)))
    return name


def _add_choice(
    chains: dict[str, Chain], sets: dict[str, Set], route: Route, backends: tuple[Backend, ...]
) -> str | None:
    """Add the chain that chooses among backends, and theirs; return its name, if there are any."""
    if not backends:
        return None
    seconds = route.affinity_seconds
    identity = route.service, route.name, route.protocol
    targets = {}
    for backend in backends:
        name = f"to-{digest(*identity, backend, seconds)}"
        targets[name] = Chain(tuple(_lead_to(backend, f"of-{name}", seconds)))
        if seconds:
            sets[f"of-{name}"] = Set(4, timeout=seconds)
    chains.update(targets)
    name = f"choose-{digest(*identity, *backends, seconds)}"
    chains[name] = Chain(tuple(_choose([*targets], seconds)))
    return name


def _choose(targets: list[str], affinity_seconds: int) -> Iterator[Rule]:
    """Yield rules that choose with equal chances, after those that know who asks."""
    if affinity_seconds:
        for target in targets:
            yield load_source(), in_set(f"of-{target}"), conclude(GOTO, target)
    for left, target in zip(range(len(targets), 0, -1), targets, strict=True):
        chance = one_in(left) if left > 1 else ()
        yield *chance, conclude(GOTO, target)


def _lead_to(backend: Backend, known: str, affinity_seconds: int) -> Iterator[Rule]:
    """Yield the rules of one backend."""
    address = pack_address(backend.address)
    # A pod that reaches itself must not see itself as the one who asks: its answer would not
    # leave it.
    yield load_source(), equals(address), *set_mark(FROM_NODE)
    if affinity_seconds:
        yield remember_source(known, affinity_seconds)
    yield translate_to(address, backend.port)


def pack_address(address: str) -> bytes:
    """Return the four bytes of an address."""
    return IPv4Address(address).packed


def _port_key(protocol: str, port: int) -> bytes:
    """Build the part of a key that names a port: each value fills a word of four bytes."""
    return struct.pack("!B3xH2x", PROTOCOLS[protocol], port)


def digest(*parts: object) -> str:
    """Return a short name for what the parts say."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
