from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.objects import build_pod
from tests.local.controllers.scheduler.nodes import (
    HOST,
    WEB,
    ZONE,
    node,
    place,
    refusal,
    waiting,
    zoned,
)

from kubewright.api.resource import Object
from kubewright.local.controllers.scheduler.node_info import NodeInfo


def spread(key: str = HOST, **fields: Any) -> list[Object]:
    constraint = {"maxSkew": 1, "topologyKey": key, "labelSelector": WEB}
    return [{**constraint, "whenUnsatisfiable": "DoNotSchedule", **fields}]


def pods(*names: str, node: str) -> list[Object]:
    return [build_pod(name, node=node) for name in names]


def test_keeps_the_skew_of_zones() -> None:
    nodes = [zoned("x", "a", pods("p", node="a")), zoned("x", "b"), zoned("y", "c")]
    assert place(waiting(topologySpreadConstraints=spread(ZONE)), nodes).node == "c"


def test_says_that_the_skew_would_be_too_large_and_that_a_label_is_missing() -> None:
    full = node("b", cpu="0")
    pod = waiting(topologySpreadConstraints=spread())
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert refusal(pod, [node("a", pods("p", node="a")), full]) == (
        "0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't match pod topology spread constraints."
    )
    assert refusal(waiting(topologySpreadConstraints=spread(ZONE)), [node()]) == (
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints "
        "(missing required label)."
    )


def test_too_few_domains_count_as_one_without_pods() -> None:
    nodes = [zoned("x", "a", pods("p", node="a")), zoned("y", "b", pods("q", node="b"))]
    pod = waiting(topologySpreadConstraints=spread(ZONE, minDomains=3))
    assert "topology spread constraints" in refusal(pod, nodes)
    assert place(waiting(topologySpreadConstraints=spread(ZONE, minDomains=2)), nodes).node


@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [({}, True), ({"nodeTaintsPolicy": "Ignore"}, True), ({"nodeTaintsPolicy": "Honor"}, False)],
)
def test_nodes_with_taints_count_unless_they_are_not_to(fields: Object, is_refused: bool) -> None:
    tainted = node("b", taints=[{"key": "k", "effect": "NoSchedule"}])
    nodes = [node("a", pods("p", node="a")), tainted]
    pod = waiting(topologySpreadConstraints=spread(**fields))
    assert bool(refusal(pod, nodes)) is is_refused


@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [({}, False), ({"nodeAffinityPolicy": "Ignore"}, True)],
)
def test_nodes_that_a_pod_may_not_go_to_count_when_they_are_to(
    fields: Object, is_refused: bool
) -> None:
    nodes = [node("a", pods("p", node="a"), labels={"disk": "ssd"}), node("b")]
    pod = waiting(nodeSelector={"disk": "ssd"}, topologySpreadConstraints=spread(**fields))
    assert bool(refusal(pod, nodes)) is is_refused


def test_only_pods_with_the_same_values_of_the_keys_count() -> None:
    nodes = [node("a", pods("p", "q", node="a")), node("b")]
    constraint = spread(matchLabelKeys=["v"])
    assert refusal(waiting(topologySpreadConstraints=constraint), nodes[:1]) == ""
    newer = waiting(topologySpreadConstraints=constraint, labels={"app": "web", "v": "2"})
    full: list[NodeInfo] = [node("b", pods=[], cpu="0")]
    assert place(newer, [nodes[0], *full]).node in ("a", "b")


def test_ending_pods_do_not_count() -> None:
    ending = build_pod("p", node="a", deleting=True)
    nodes = [node("a", [ending]), node("b", cpu="0")]
    pod = waiting(topologySpreadConstraints=spread())
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert place(pod, nodes).node == "a"


def test_a_soft_constraint_weighs_and_refuses_nobody() -> None:
    soft = spread(ZONE, whenUnsatisfiable="ScheduleAnyway")
    crowd = pods("p", "q", "r", node="a")
    nodes = [zoned("x", "a", crowd), zoned("x", "b"), zoned("y", "c", [build_pod("o", node="c")])]
    assert place(waiting(topologySpreadConstraints=soft), nodes).node == "c"
    assert place(waiting(topologySpreadConstraints=soft), nodes[:1]).node == "a"
