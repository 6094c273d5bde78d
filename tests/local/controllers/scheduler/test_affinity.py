from __future__ import annotations

import msgspec
import pytest
from tests.local.controllers.objects import build_pod
from tests.local.controllers.scheduler.nodes import (
    HOST,
    ZONE,
    node,
    place,
    pod_affinity,
    preferred,
    refusal,
    waiting,
    zoned,
)

from kubewright.api.resource import Object
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.placement import plan_placement

OTHER: Object = {"app": "other"}


def test_a_pod_goes_where_the_company_that_it_requires_is() -> None:
    nodes = [node("a"), node("b", [build_pod("p", node="b")])]
    assert place(waiting(affinity=pod_affinity(), labels=OTHER), nodes).node == "b"


def test_the_first_pod_of_a_group_is_let_in_and_a_stranger_is_not() -> None:
    assert place(waiting(affinity=pod_affinity()), [node()]).node == "node-a"
    message = refusal(waiting(affinity=pod_affinity(), labels=OTHER), [node()])
    assert message == "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."


def test_company_in_the_same_zone_is_company() -> None:
    nodes = [zoned("x", "a"), zoned("y", "b"), zoned("y", "c", [build_pod("p", node="c")])]
    pod = waiting(affinity=pod_affinity(ZONE), labels=OTHER)
    assert place(pod, nodes).node == "b"


def test_a_node_without_the_topology_key_is_refused() -> None:
    pod = waiting(affinity=pod_affinity(ZONE))
    assert "didn't match pod affinity rules" in refusal(pod, [node()])


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        ({}, False),
        ({"namespaces": ["elsewhere"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
    ],
)
def test_terms_mean_pods_of_the_namespaces_that_they_name(term: Object, matches: bool) -> None:
    stranger = build_pod("p")
    stranger["metadata"]["namespace"] = "elsewhere"
    affinity = pod_affinity(kind="podAntiAffinity", **term)
    incoming = msgspec.structs.replace(
        Incoming.of(waiting(affinity=affinity)), namespaces={"elsewhere": {"team": "a"}}
    )
    placement = plan_placement(incoming, [node(pods=[stranger])])
    assert bool(placement.message) is matches


def test_a_pod_keeps_away_those_that_it_repels_from_its_whole_zone() -> None:
    guard = build_pod("p", node="a", affinity=pod_affinity(ZONE, kind="podAntiAffinity"))
    nodes = [zoned("x", "a", [guard]), zoned("x", "b")]
    assert refusal(waiting(), nodes) == (
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    assert place(waiting(), [*nodes, zoned("y", "c")]).node == "c"


@pytest.mark.parametrize(
    ("kind", "chosen"), [("podAffinity", "crowded"), ("podAntiAffinity", "empty")]
)
def test_preferences_weigh_when_both_nodes_fit(kind: str, chosen: str) -> None:
    nodes = [node("crowded", [build_pod("p", node="crowded")]), node("empty")]
    pod = waiting(affinity=preferred(kind=kind, key=HOST), labels=OTHER)
    assert place(pod, nodes).node == chosen


def test_what_pods_prefer_that_are_there_weighs_too() -> None:
    wishing = build_pod("p", node="b", affinity=preferred(), labels=OTHER)
    assert place(waiting(), [node("a"), node("b", [wishing])]).node == "b"
