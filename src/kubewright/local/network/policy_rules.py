"""Rules that let through what NetworkPolicies allow, and drop the rest. Pure.

They see packets as pods send and get them: after a Service's address has become its backend's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network

import msgspec

from kubewright.local.network.network_policy import (
    EGRESS,
    INGRESS,
    AddressRange,
    Allowance,
    Isolation,
    PortRange,
)
from kubewright.local.network.ruleset import (
    ACCEPT,
    DROP,
    FORWARD,
    INPUT,
    JUMP,
    PROTOCOLS,
    RETURN,
    Chain,
    Expression,
    Hook,
    Rule,
    Ruleset,
    Set,
    Verdict,
    between,
    conclude,
    equals,
    follow_map,
    in_set,
    is_known_connection,
    load_port,
    load_protocol,
    load_source,
    load_target,
)
from kubewright.local.network.service_routes import Backend
from kubewright.local.network.service_rules import digest, pack_address

INGRESS_PODS, EGRESS_PODS = "ingress-isolated", "egress-isolated"


class Detour(msgspec.Struct, frozen=True):
    """A backend outside the pods' networks, and the node's port by which pods reach it."""

    protocol: str
    backend: Backend
    port: int


def build_policy_rules(
    isolations: Sequence[Isolation], gateway: str, detours: Sequence[Detour] = ()
) -> Ruleset:
    """Build the rules for the isolated pods of a node; without any there are none."""
    if not isolations:
        return Ruleset()
    chains: dict[str, Chain] = {}
    sets: dict[str, Set] = {}
    maps: dict[str, dict[bytes, Verdict]] = {INGRESS_PODS: {}, EGRESS_PODS: {}}
    for isolation in isolations:
        address = pack_address(isolation.pod.address)
        for direction, allowances, name in (
            (INGRESS, isolation.ingress, INGRESS_PODS),
            (EGRESS, isolation.egress, EGRESS_PODS),
        ):
            if allowances is None:
                continue
            chain = f"{direction.lower()}-{digest(isolation.pod.address)}"
            load = load_source() if direction == INGRESS else load_target()
            # Nobody keeps a pod from itself.
            rules: list[Rule] = [(load, equals(address), conclude(RETURN))]
            for allowance in allowances:
                rules += _allow(allowance, load, sets)
                if direction == EGRESS:
                    rules += _allow_detours(allowance, gateway, detours)
            chains[chain] = Chain((*rules, (conclude(DROP),)))
            maps[name][address] = Verdict(JUMP, chain)
    sets.update({name: Set(4, verdicts=found) for name, found in maps.items()})
    chains.update(_base_chains())
    return Ruleset(chains, sets)


def _base_chains() -> dict[str, Chain]:
    known: Rule = (*is_known_connection(), conclude(ACCEPT))
    leaves: Rule = (load_source(), follow_map(EGRESS_PODS))
    enters: Rule = (load_target(), follow_map(INGRESS_PODS))
    return {
        "policies": Chain((known, leaves, enters), Hook("filter", FORWARD, 0)),
        # What pods ask of the node itself: names, and what it relays. What the node asks of its
        # pods is always allowed, as probes are.
        "policies-of-node": Chain((known, leaves), Hook("filter", INPUT, 0)),
    }


def _allow(allowance: Allowance, load: Expression, sets: dict[str, Set]) -> Iterator[Rule]:
    """Yield a rule for each way in which the allowance can be met."""
    others: list[tuple[Expression, ...]] = []
    if allowance.addresses is None:
        others.append(())
    elif allowance.addresses:
        name = f"peers-{digest(allowance.name)}"
        sets[name] = Set(4, keys=frozenset(map(pack_address, allowance.addresses)))
        others.append((load, in_set(name)))
    others += [tuple(_within(load, found)) for found in allowance.ranges or ()]
    for other in others:
        for port in _match_ports(allowance.ports):
            yield *other, *port, conclude(RETURN)


def _within(load: Expression, found: AddressRange) -> Iterator[Expression]:
    yield from (load, _between(found.network))
    for part in found.excluded:
        yield from (load, _between(part, negated=True))


def _between(network: IPv4Network, *, negated: bool = False) -> Expression:
    first, last = network.network_address.packed, network.broadcast_address.packed
    return between(first, last, negated=negated)


def _match_ports(ports: Iterable[PortRange] | None) -> Iterator[tuple[Expression, ...]]:
    if ports is None:
        yield ()
        return
    for port in ports:
        if port.protocol not in PROTOCOLS:
            continue
        protocol = (load_protocol(), equals(bytes([PROTOCOLS[port.protocol]])))
        if (port.low, port.high) == (0, 65535):
            yield protocol
        else:
            low, high = (struct.pack("!H", number) for number in (port.low, port.high))
            yield *protocol, load_port(), between(low, high)


def _allow_detours(allowance: Allowance, gateway: str, detours: Iterable[Detour]) -> Iterator[Rule]:
    """Yield rules for what pods reach by way of the node, where its true address is allowed."""
    for detour in detours:
        if is_allowed(allowance, detour.protocol, detour.backend):
            (port,) = _match_ports([PortRange(detour.protocol, detour.port, detour.port)])
            yield load_target(), equals(pack_address(gateway)), *port, conclude(RETURN)


def is_allowed(allowance: Allowance, protocol: str, backend: Backend) -> bool:
    """Tell whether an allowance holds for an address and port."""
    ports, ranges = allowance.ports, allowance.ranges
    if ports is not None and not any(port.holds(protocol, backend.port) for port in ports):
        return False
    if ranges is None:
        return True
    address = IPv4Address(backend.address)
    return any(
        address in found.network and not any(address in part for part in found.excluded)
        for found in ranges
    )
