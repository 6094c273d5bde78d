from __future__ import annotations

from datetime import timedelta

from tests.local.controllers.objects import NOW, build_node, build_pod

from kubewright.api.resource import Object
from kubewright.local.controllers.node_lifecycle.eviction import plan_eviction
from kubewright.local.controllers.node_lifecycle.heartbeat import (
    GRACE_PERIOD,
    Heartbeats,
    build_silent_conditions,
)
from kubewright.local.controllers.node_lifecycle.taints import plan_taints

TIME = "2026-01-01T12:00:00Z"


def identities(taints: list[Object]) -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in taints]


def test_a_ready_node_loses_the_taints_of_before_and_keeps_its_own() -> None:
    own = {"key": "dedicated", "effect": "NoSchedule"}
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert plan_taints(build_node(taints=[own, taint]), TIME) == [own]


def test_a_node_that_is_not_ready_keeps_pods_out_and_drives_them_out() -> None:
    node = build_node()
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    taints = plan_taints(node, TIME)
    assert identities(taints) == [
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
    ]
    node["spec"]["taints"] = taints
    assert plan_taints(node, "2027-01-01T00:00:00Z") == taints


def test_a_cordoned_node_under_pressure_is_tainted() -> None:
    node = build_node()
    node["spec"]["unschedulable"] = True
    node["status"]["conditions"].append({"type": "DiskPressure", "status": "True"})
    assert identities(plan_taints(node, TIME)) == [
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


def test_silence_is_measured_from_the_last_change_that_was_seen() -> None:
    beats, node = Heartbeats(), build_node()
    lease = {"spec": {"renewTime": "1"}}
    assert beats.silence(node, lease, 100.0) == timedelta()
    assert beats.silence(node, lease, 100.0 + GRACE_PERIOD.total_seconds()) == GRACE_PERIOD
    assert beats.silence(node, {"spec": {"renewTime": "2"}}, 200.0) == timedelta()


def test_of_a_silent_node_nothing_is_known() -> None:
    conditions = build_silent_conditions(build_node(), TIME)
    assert {condition["status"] for condition in conditions} == {"Unknown"}
    ready = next(c for c in conditions if c["type"] == "Ready")
    assert ready["reason"] == "NodeStatusUnknown"
    assert ready["message"] == "Kubelet stopped posting node status."


def test_evicts_at_once_later_or_never() -> None:
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T11:59:55Z"}
    node = build_node(taints=[taint])
    exists = {"key": "k", "operator": "Exists"}
    assert plan_eviction(build_pod(), node, NOW) == timedelta()
    assert plan_eviction(build_pod(tolerations=[exists]), node, NOW) is None
    limited = build_pod(tolerations=[{**exists, "tolerationSeconds": 8}])
    assert plan_eviction(limited, node, NOW) == timedelta(seconds=3)
    assert plan_eviction(build_pod(), build_node(), NOW) is None
