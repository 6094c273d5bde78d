from __future__ import annotations

import msgspec
import pytest
from tests.local.controllers.objects import build_node, build_pod
from tests.local.controllers.scheduler.nodes import (
    container,
    node,
    place,
    pod_affinity,
    waiting,
)

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.placement import plan_placement
from kubewright.local.controllers.scheduler.requests import pod_requests

NO_HELP = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


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
            waiting(affinity=pod_affinity(kind="podAntiAffinity")),
            node(pods=[build_pod("p")]),
            "node(s) didn't match pod anti-affinity rules",
            NO_VICTIMS,
        ),
        (
            waiting(),
            node(pods=[build_pod("p", affinity=pod_affinity(kind="podAntiAffinity"))]),
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


def test_requests_count_sidecars_and_init_containers() -> None:
    def one(name: str, cpu: str, **fields: str) -> Object:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "containers": [one("a", "1"), one("b", "500m")],
        "initContainers": [one("side", "250m", restartPolicy="Always"), one("init", "2")],
        "overhead": {"cpu": "10m"},
    }
    assert pod_requests(spec) == {"cpu": 2260}


def test_requests_of_the_pod_as_a_whole_take_the_place_of_the_sum() -> None:
    spec = {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "x.io/gpu": "1"}}}],
        "resources": {"requests": {"cpu": "3"}},
    }
    assert pod_requests(spec) == {"cpu": 3000, "x.io/gpu": 1}


def test_a_resize_gives_room_back_only_when_it_is_done() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}
    status = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "2"}}]}
    assert pod_requests(spec, status) == {"cpu": 2000}


def test_a_pod_that_names_its_node_asks_no_other() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    terms = [{"matchFields": [field]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = waiting(affinity={"nodeAffinity": required}, containers=container(cpu="2"))
    assert place(pod, [node("a"), node("b")]).node == "b"
    assert place(pod, [node("a"), node("b", cpu="1"), node("c")]).message == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: "
        "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


def test_prefers_nodes_that_have_the_images_already() -> None:
    stored = build_node("b")
    stored["status"]["images"] = [{"names": ["big:1"], "sizeBytes": 2_000_000_000}]
    nodes = [node("a"), NodeInfo.of(stored), node("c")]
    pod = waiting(containers=[{"name": "c", "image": "big:1"}])
    assert place(pod, nodes).node == "b"


def test_two_pods_do_not_take_the_same_host_port() -> None:
    def on_port(ip: str) -> list[Object]:
        port = {"containerPort": 80, "hostPort": 80, "hostIP": ip}
        return [{"name": "c", "image": "i", "ports": [port]}]

    taken = node(pods=[build_pod("p", containers=on_port("10.0.0.1"))])
    assert place(waiting(containers=on_port("10.0.0.2")), [taken]).node == "node-a"
    assert "didn't have free ports" in place(waiting(containers=on_port("")), [taken]).message
