from __future__ import annotations

from typing import Any

from tests.local.controllers.objects import build_pod
from tests.local.controllers.scheduler.nodes import (
    container,
    node,
    place,
    pod_affinity,
    waiting,
)

from kubewright.api.resource import Object
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.placement import plan_placement
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.local.controllers.scheduler.preemption import Budget, split_by_budget


def important(cpu: str = "4", **spec: Any) -> Object:
    return waiting(priority=10, containers=container(cpu=cpu), **spec)


def low(name: str, cpu: str = "1", priority: int = 1, **options: Any) -> Object:
    return build_pod(name, priority=priority, containers=container(cpu=cpu), **options)


def budget(allowed: int, **labels: str) -> Budget:
    return Budget.of(
        {
            "metadata": {"name": "b", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed},
        }
    )


def test_preempts_the_least_important_pods_that_suffice() -> None:
    pods = [low("low", priority=1), low("middle", priority=5), low("high", priority=50)]
    placement = place(important("2"), [node(pods=[*pods, low("other", priority=2)])])
    assert placement.nominated == "node-a"
    assert [victim.key.name for victim in placement.victims] == ["other", "low"]
    assert placement.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "found a potential placement for pod on node node-a, preempting 2 victims"
    )


def test_spares_pods_whose_going_would_break_a_budget() -> None:
    pods = [low("guarded", labels={"app": "db"}), low("free", priority=5)]
    incoming = Incoming.of(important("3"))
    placement = plan_placement(incoming, [node(pods=pods)], None, lambda: [budget(0, app="db")])
    assert [victim.key.name for victim in placement.victims] == ["free"]


def test_breaks_a_budget_where_there_is_no_other_way() -> None:
    incoming = Incoming.of(important("4"))
    pods = [low("guarded", labels={"app": "db"})]
    placement = plan_placement(incoming, [node(pods=pods)], None, lambda: [budget(0, app="db")])
    assert [victim.key.name for victim in placement.victims] == ["guarded"]


def test_a_budget_allows_as_many_disruptions_as_it_says() -> None:
    pods = [PodInfo.of(low(name, labels={"app": "db"})) for name in ("a", "b", "c")]
    violating, others = split_by_budget(pods, [budget(2, app="db")])
    assert ([p.key.name for p in violating], [p.key.name for p in others]) == (["c"], ["a", "b"])


def test_prefers_the_node_where_the_least_is_lost() -> None:
    nodes = [
        node("a", [low("one", cpu="4", priority=5, node="a")]),
        node("b", [low("two", cpu="4", priority=2, node="b")]),
        node("c", [low("three", "2", 2, node="c"), low("four", "2", 2, node="c")]),
    ]
    assert place(important(), nodes).nominated == "b"


def test_of_equal_victims_the_one_that_runs_shortest_goes() -> None:
    pods = [low("old", "2", ready_for=900), low("young", "2", ready_for=5)]
    placement = place(important("2"), [node(pods=pods)])
    assert [victim.key.name for victim in placement.victims] == ["young"]


def test_says_what_still_refuses_the_pod_when_all_victims_are_gone() -> None:
    guard = build_pod("g", affinity=pod_affinity(kind="podAntiAffinity"), priority=100)
    placement = place(important("1"), [node(pods=[guard, low("low")])])
    reason = "1 node(s) didn't satisfy existing pods anti-affinity rules."
    assert placement.message == (
        f"0/1 nodes are available: {reason} preemption: 0/1 nodes are available: {reason}"
    )


def test_a_pod_that_never_preempts_says_so() -> None:
    placement = place(important(preemptionPolicy="Never"), [node(pods=[low("low")])])
    assert placement.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")
    assert placement.victims == ()


def test_waits_for_victims_that_are_ending() -> None:
    wanted = important()
    wanted["status"]["nominatedNodeName"] = "node-a"
    placement = place(wanted, [node(pods=[low("low", cpu="4", deleting=True)])])
    assert (placement.node, placement.nominated, placement.victims) == ("", None, ())
    assert placement.message == ""


def test_takes_a_nomination_back_that_helps_no_more() -> None:
    wanted = important()
    wanted["status"]["nominatedNodeName"] = "node-a"
    placement = place(wanted, [node(pods=[low("high", cpu="4", priority=50)])])
    assert placement.nominated == ""


def test_room_that_is_made_for_one_is_not_given_to_another() -> None:
    nominated = important("3")
    nominated["status"]["nominatedNodeName"] = "node-a"
    reserved = {"node-a": [PodInfo.of(nominated)]}
    incoming = Incoming.of(waiting("late", containers=container(cpu="2")))
    assert plan_placement(incoming, [node()], reserved).node == ""
    assert plan_placement(incoming, [node()]).node == "node-a"
