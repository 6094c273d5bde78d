from __future__ import annotations

from ipaddress import IPv4Network
from itertools import pairwise

import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.local.cluster.node_process import plan_simulated_cidrs
from kubewright.local.node.node_status import MAX_SIMULATED_PODS


def test_simulated_nodes_have_addresses_for_all_pods_that_they_may_hold() -> None:
    networks = [IPv4Network(cidr) for cidr in plan_simulated_cidrs(3)]
    assert not any(one.overlaps(two) for one, two in pairwise(networks))
    assert all(network.num_addresses > MAX_SIMULATED_PODS + 4 for network in networks)


def test_says_that_there_are_too_many_nodes() -> None:
    with pytest.raises(ConfigurationError, match="2048 simulated nodes"):
        plan_simulated_cidrs(2049)
