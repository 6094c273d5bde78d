from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from kubewright.api.resource import NamespacedName
from kubewright.local.network.network_policy import (
    AddressRange,
    Allowance,
    Isolation,
    PolicyPod,
    PortRange,
)
from kubewright.local.network.policy_rules import Detour, build_policy_rules, is_allowed
from kubewright.local.network.ruleset import (
    DELETE_CHAIN,
    DELETE_ELEMENT,
    DROP,
    JUMP,
    Ruleset,
    conclude,
    plan_changes,
)
from kubewright.local.network.service_routes import Backend

GATEWAY = "10.244.0.1"
POD = PolicyPod(NamespacedName("shop", "web"), "10.244.0.2", {})
ADDRESS = bytes([10, 244, 0, 2])
SERVER = Backend("127.0.0.1", 6443)


def allow(
    *addresses: str,
    ranges: tuple[AddressRange, ...] = (),
    ports: tuple[PortRange, ...] | None = None,
) -> Allowance:
    return Allowance("shop/p/Ingress/0", frozenset(addresses), ranges, ports)


def test_without_isolated_pods_there_are_no_rules() -> None:
    assert build_policy_rules([], GATEWAY) == Ruleset()


def test_isolated_pod_drops_what_no_rule_lets_through() -> None:
    rules = build_policy_rules([Isolation(POD, (), None)], GATEWAY)
    verdicts = rules.sets["ingress-isolated"].verdicts
    assert verdicts is not None
    assert verdicts[ADDRESS].code == JUMP
    assert not rules.sets["egress-isolated"].verdicts
    chain = rules.chains[verdicts[ADDRESS].chain]
    # What the pod sends itself is let through before.
    assert len(chain.rules) == 2
    assert chain.rules[-1] == (conclude(DROP),)


def test_pods_that_come_and_go_change_only_the_set_of_peers() -> None:
    one = build_policy_rules([Isolation(POD, (allow("10.244.0.3"),), None)], GATEWAY)
    two = build_policy_rules([Isolation(POD, (allow("10.244.0.3", "10.244.0.4"),), None)], GATEWAY)
    assert len(plan_changes("t", one, two)) == 1
    assert one.chains == two.chains


def test_each_range_and_each_port_has_a_rule() -> None:
    ranges = (
        AddressRange(IPv4Network("192.0.2.0/24"), (IPv4Network("192.0.2.8/29"),)),
        AddressRange(IPv4Network("198.51.100.0/24")),
    )
    ports = (PortRange("TCP", 80, 80), PortRange("UDP"))
    rules = build_policy_rules(
        [Isolation(POD, (allow(ranges=ranges, ports=ports),), None)], GATEWAY
    )
    (chain,) = [chain for name, chain in rules.chains.items() if name.startswith("ingress-")]
    assert len(chain.rules) == 1 + 2 * 2 + 1


def test_last_policy_goes_in_an_order_that_the_kernel_allows() -> None:
    """A chain that a map still leads to is busy."""
    rules = build_policy_rules([Isolation(POD, (allow("10.244.0.3"),), ())], GATEWAY)
    types = [message[0] for message in plan_changes("t", rules, Ruleset())]
    last_element = max(i for i, type in enumerate(types) if type == DELETE_ELEMENT)
    assert types.index(DELETE_CHAIN) > last_element


EVERYWHERE = AddressRange(IPv4Network("0.0.0.0/0"))


@pytest.mark.parametrize(
    ("allowance", "expected"),
    [
        (Allowance("", None, None, None), True),
        (Allowance("", None, None, (PortRange("TCP", 6443, 6443),)), True),
        (Allowance("", None, None, (PortRange("TCP", 443, 443),)), False),
        (Allowance("", None, None, (PortRange("UDP"),)), False),
        (allow("10.244.0.3"), False),
        (allow(ranges=(EVERYWHERE,)), True),
        (
            allow(ranges=(AddressRange(EVERYWHERE.network, (IPv4Network("127.0.0.0/8"),)),)),
            False,
        ),
    ],
)
def test_backend_outside_is_judged_by_its_own_address(allowance: Allowance, expected: bool) -> None:
    """Pods reach it by a port of the node, which no policy could name."""
    assert is_allowed(allowance, "TCP", SERVER) is expected
    detours = [Detour("TCP", SERVER, 40000)]
    with_it = build_policy_rules([Isolation(POD, None, (allowance,))], GATEWAY, detours)
    without = build_policy_rules([Isolation(POD, None, (allowance,))], GATEWAY)
    assert (with_it != without) is expected
