from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import msgspec
import pytest

from kubewright.api.resource import NamespacedName
from kubewright.local.network.network_policy import (
    AddressRange,
    Allowance,
    Isolation,
    NetworkPolicy,
    PolicyPod,
    PolicyView,
    PortRange,
    build_isolations,
)

NAMESPACES = {"shop": {"team": "a"}, "ops": {"team": "b"}, "lab": {}}
WEB = PolicyPod(
    NamespacedName("shop", "web"), "10.244.0.2", {"app": "web"}, "n1", (("http", "TCP", 8080),)
)
CACHE = PolicyPod(
    NamespacedName("shop", "cache"), "10.244.0.3", {"app": "cache"}, "n2", (("http", "TCP", 9090),)
)
AGENT = PolicyPod(NamespacedName("ops", "agent"), "10.244.0.4", {"app": "agent"}, "n2")
LAB = PolicyPod(NamespacedName("lab", "web"), "10.244.0.5", {"app": "web"}, "n1")
PODS = [WEB, CACHE, AGENT, LAB]


def build_policy(name: str = "p", **spec: Any) -> NetworkPolicy:
    spec.setdefault("podSelector", {"matchLabels": {"app": "web"}})
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}, NetworkPolicy
    )


def isolate(*policies: NetworkPolicy) -> Isolation:
    (isolation,) = build_isolations(policies, PolicyView(PODS, NAMESPACES), "n1")
    assert isolation.pod is WEB
    return isolation


def only_ingress(**rule: Any) -> Allowance:
    ingress = isolate(build_policy(ingress=[rule])).ingress
    assert ingress is not None
    (allowance,) = ingress
    return allowance


def names(allowance: Allowance) -> set[str]:
    by_address = {pod.address: pod.key.name for pod in PODS}
    return {by_address[address] for address in allowance.addresses or ()}


@pytest.mark.parametrize(
    ("spec", "ingress", "egress"),
    [
        ({}, (), None),
        ({"policyTypes": ["Ingress"], "egress": [{}]}, (), None),
        ({"policyTypes": ["Egress"]}, None, ()),
        ({"policyTypes": ["Ingress", "Egress"]}, (), ()),
    ],
)
def test_types_say_in_which_directions_pods_are_isolated(
    spec: dict[str, Any], ingress: object, egress: object
) -> None:
    isolation = isolate(build_policy(**spec))
    assert (isolation.ingress, isolation.egress) == (ingress, egress)


def test_rules_for_egress_isolate_too_without_types() -> None:
    assert isolate(build_policy(egress=[{}])).egress is not None


def test_empty_rule_allows_everybody_everything() -> None:
    allowance = only_ingress()
    assert (allowance.addresses, allowance.ranges, allowance.ports) == (None, None, None)


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ({"podSelector": {}}, {"web", "cache"}),
        ({"podSelector": {"matchLabels": {"app": "cache"}}}, {"cache"}),
        ({"podSelector": {"matchLabels": {"app": "agent"}}}, set()),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, {"agent"}),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "agent"}}}, {"agent"}),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]
                },
                "podSelector": {
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["agent", "x"]}]
                },
            },
            {"agent"},
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
            {"web", "cache", "agent"},
        ),
    ],
)
def test_peers(peer: dict[str, Any], expected: set[str]) -> None:
    assert names(only_ingress(**{"from": [peer]})) == expected


def test_peers_of_a_rule_add_up_and_rules_stand_alone() -> None:
    both = only_ingress(
        **{
            "from": [
                {"podSelector": {"matchLabels": {"app": "cache"}}},
                {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.8/29"]}},
            ]
        }
    )
    assert names(both) == {"cache"}
    block = AddressRange(IPv4Network("192.0.2.0/24"), (IPv4Network("192.0.2.8/29"),))
    assert both.ranges == (block,)


def test_policies_add_up() -> None:
    cache = {"from": [{"podSelector": {"matchLabels": {"app": "cache"}}}]}
    isolation = isolate(build_policy("deny"), build_policy("allow", ingress=[cache]))
    assert isolation.ingress is not None
    assert [names(allowance) for allowance in isolation.ingress] == [{"cache"}]


def test_ports() -> None:
    allowance = only_ingress(
        ports=[
            {"port": 80},
            {"port": 32000, "endPort": 32768, "protocol": "UDP"},
            {"protocol": "SCTP"},
            {"port": "http"},
        ]
    )
    assert allowance.ports == (
        PortRange("SCTP"),
        PortRange("TCP", 80, 80),
        PortRange("TCP", 8080, 8080),
        PortRange("UDP", 32000, 32768),
    )


def test_named_port_that_the_pod_has_not_allows_nothing() -> None:
    assert isolate(build_policy(ingress=[{"ports": [{"port": "admin"}]}])).ingress == ()


def test_named_port_of_egress_is_the_peers() -> None:
    rule = {"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}
    egress = isolate(build_policy(policyTypes=["Egress"], egress=[rule])).egress
    assert egress is not None
    assert {tuple(names(a)): a.ports for a in egress} == {
        ("web",): (PortRange("TCP", 8080, 8080),),
        ("cache",): (PortRange("TCP", 9090, 9090),),
    }


def test_only_pods_of_the_node_and_the_namespace_are_isolated() -> None:
    everybody = build_policy(podSelector={})
    view = PolicyView(PODS, NAMESPACES)
    assert [i.pod.key.name for i in build_isolations([everybody], view, "n1")] == ["web"]
    assert [i.pod.key.name for i in build_isolations([everybody], view, "n2")] == ["cache"]
    assert build_isolations([], view, "n1") == []
