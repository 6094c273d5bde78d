from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.local.controllers.objects import build_node, build_pod

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.placement import Placement, plan_placement
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.local.controllers.scheduler.requests import pod_requests

NO_HELP = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


def container(**requests: str) -> list[Object]:
    return [{"name": "c", "image": "i", "resources": {"requests": requests}}]


def waiting(**spec: Any) -> Object:
    return build_pod("new", node="", **spec)


def node(name: str = "node-a", pods: list[Object] | None = None, **options: Any) -> NodeInfo:
    return NodeInfo.of(build_node(name, **options), [PodInfo.of(pod) for pod in pods or []])


def place(pod: Object, nodes: list[NodeInfo]) -> Placement:
    return plan_placement(Incoming.of(pod), nodes)


def anti_affinity() -> Object:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_places_a_pod_that_fits() -> None:
    assert place(waiting(), [node()]).node == "node-a"


def test_says_that_there_are_no_nodes() -> None:
    assert place(waiting(), []).message == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("pod", "where", "reason", "end"),
    [
        (waiting(containers=container(cpu="100")), node(), "Insufficient cpu", NO_HELP),
        (
            waiting(containers=container(cpu="3")),
            node(pods=[build_pod("p", containers=container(cpu="2"))]),
            "Insufficient cpu",
            NO_VICTIMS,
        ),
        (waiting(), node(pods=[build_pod("p")], cpu="1", memory="1"), "", ""),
        (
            waiting(nodeSelector={"disk": "ssd"}),
            node(),
            "node(s) didn't match Pod's node affinity/selector",
            NO_HELP,
        ),
        (
            waiting(),
            node(taints=[{"key": "k", "value": "x", "effect": "NoSchedule"}]),
            "node(s) had untolerated taint(s)",
            NO_HELP,
        ),
        (
            waiting(affinity=anti_affinity()),
            node(pods=[build_pod("p")]),
            "node(s) didn't match pod anti-affinity rules",
            NO_VICTIMS,
        ),
        (
            waiting(),
            node(pods=[build_pod("p", affinity=anti_affinity())]),
            "node(s) didn't satisfy existing pods anti-affinity rules",
            NO_VICTIMS,
        ),
    ],
    ids=["huge", "full", "fits", "selector", "taint", "anti-affinity", "others' anti-affinity"],
)
def test_says_why_a_pod_does_not_fit(pod: Object, where: NodeInfo, reason: str, end: str) -> None:
    message = place(pod, [where]).message
    expected = f"0/1 nodes are available: 1 {reason}. {end}" if reason else ""
    assert message == expected


def test_counts_reasons_over_all_nodes() -> None:
    nodes = [
        node("a", taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("b", taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("c", cpu="1"),
    ]
    message = place(waiting(containers=container(cpu="2")), nodes).message
    assert message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). "
    )


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "k", "value": "x"},
    ],
)
def test_tolerates_taints(toleration: Object) -> None:
    tainted = node(taints=[{"key": "k", "value": "x", "effect": "NoSchedule"}])
    assert place(waiting(tolerations=[toleration]), [tainted]).node == "node-a"


def test_spreads_the_pods_that_belong_together() -> None:
    crowded = node("a", [build_pod("p", node="a")])
    other = build_pod("q", node="b", labels={"app": "other"})
    kin = LabelSelector.of_labels({"app": "web"})
    incoming = msgspec.structs.replace(Incoming.of(waiting()), kin=lambda: kin)
    assert plan_placement(incoming, [crowded, node("b", [other])]).node == "b"


def test_prefers_the_node_with_more_room() -> None:
    full = node("a", [build_pod("p", node="a", containers=container(cpu="3", memory="6Gi"))])
    assert place(waiting(), [full, node("b")]).node == "b"


def test_keeps_the_skew_of_a_topology() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    crowded = node("a", [build_pod("p", node="a")])
    full = node("b", cpu="1", pods=[build_pod("x", node="b", labels={})])
    pod = waiting(topologySpreadConstraints=[constraint], containers=container(cpu="2"))
    assert place(pod, [crowded, node("b")]).node == "b"
    assert "topology spread" in place(pod, [crowded, full]).message


def test_preempts_the_least_important_pods_that_suffice() -> None:
    pods = [
        build_pod(name, priority=priority, containers=container(cpu="1"))
        for name, priority in (("low", 1), ("middle", 5), ("high", 50), ("other", 1))
    ]
    wanted = waiting(priority=10, containers=container(cpu="1"))
    placement = place(wanted, [node(pods=pods)])
    assert placement.nominated == "node-a"
    assert [victim.key.name for victim in placement.victims] in (["low"], ["other"])
    assert placement.message.endswith(
        "preemption: found a potential placement for pod on node node-a, preempting 1 victims"
    )


def test_waits_for_victims_that_are_ending() -> None:
    ending = build_pod("low", deleting=True, priority=1, containers=container(cpu="4"))
    wanted = waiting(priority=10, containers=container(cpu="4"))
    wanted["status"]["nominatedNodeName"] = "node-a"
    placement = place(wanted, [node(pods=[ending])])
    assert (placement.node, placement.nominated, placement.victims) == ("", None, ())
    assert placement.message == ""


def test_requests_count_sidecars_and_init_containers() -> None:
    def one(name: str, cpu: str, **fields: str) -> Object:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "containers": [one("a", "1"), one("b", "500m")],
        "initContainers": [one("side", "250m", restartPolicy="Always"), one("init", "2")],
        "overhead": {"cpu": "10m"},
    }
    assert pod_requests(spec) == {"cpu": 2260}
