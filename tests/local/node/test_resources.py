from __future__ import annotations

from typing import Any

import pytest
from tests.local.node.objects import build_pod

from kubewright.api.resource import Object
from kubewright.local.node.resources import ContainerResources, build_resources


def build(container: Object, **spec: Any) -> ContainerResources:
    return build_resources(build_pod(**spec), {"name": "c", "resources": container})


def test_reads_requests_and_limits() -> None:
    found = build({"requests": {"cpu": "60m"}, "limits": {"cpu": "1.5", "memory": "64Mi"}})
    assert found == ContainerResources(60, 1500, 64 << 20)


def test_limit_of_cpu_stands_for_a_missing_request() -> None:
    assert build({"limits": {"cpu": "250m"}}).cpu_request == 250


def test_limit_of_the_pod_counts_for_a_container_without_one() -> None:
    pod = {"limits": {"memory": "1Gi", "cpu": "2"}}
    assert build({"limits": {"cpu": "1"}}, resources=pod) == ContainerResources(1000, 1000, 1 << 30)


@pytest.mark.parametrize(
    ("milli", "shares", "weight"),
    [(0, 2, 1), (100, 102, 4), (1000, 1024, 39), (10**9, 262144, 10**4)],
)
def test_request_of_cpu_is_a_weight(milli: int, shares: int, weight: int) -> None:
    resources = ContainerResources(cpu_request=milli)
    assert (resources.cpu_shares, resources.cpu_weight) == (shares, weight)


@pytest.mark.parametrize(("milli", "quota"), [(None, None), (150, 15000), (1, 1000)])
def test_limit_of_cpu_is_a_quota(milli: int | None, quota: int | None) -> None:
    assert ContainerResources(cpu_limit=milli).cpu_quota == quota
