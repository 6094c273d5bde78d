from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.local.node.pod_addresses import AddressPool, NetworkError, choose_network


def test_hands_out_addresses_between_gateway_and_host() -> None:
    pool = AddressPool(IPv4Network("10.244.3.0/29"))
    assert (pool.gateway, pool.host) == ("10.244.3.1", "10.244.3.6")
    assert [pool.allocate() for _ in range(4)] == [f"10.244.3.{n}" for n in (2, 3, 4, 5)]
    with pytest.raises(NetworkError, match="all 4 pod addresses"):
        pool.allocate()


def test_freed_address_is_reused_last() -> None:
    pool = AddressPool(IPv4Network("10.244.3.0/29"))
    first = pool.allocate()
    pool.release(first)
    assert pool.allocate() != first


def test_chooses_a_network_without_a_route() -> None:
    taken = [IPv4Network("10.244.0.0/24"), IPv4Network("10.0.0.0/8")]
    assert choose_network(taken[:1]) == IPv4Network("10.244.1.0/24")
    with pytest.raises(ConfigurationError, match="--pod-cidr"):
        choose_network(taken)


def test_network_that_is_only_a_hint_gives_way() -> None:
    hint = IPv4Network("10.244.7.0/24")
    assert choose_network([], hint, is_hint=True) == hint
    assert choose_network([hint], hint, is_hint=True) == IPv4Network("10.244.0.0/24")
    with pytest.raises(ConfigurationError):
        choose_network([hint], hint)
