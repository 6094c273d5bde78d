"""Which pods a DaemonSet makes and deletes, from its nodes and pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.objects import NOW, build_daemon_set, build_node, build_pod

from kubewright.api.resource import Object
from kubewright.local.controllers.daemonset.daemon_set import DaemonSet
from kubewright.local.controllers.daemonset.placement import Placement
from kubewright.local.controllers.daemonset.plan import Plan, plan_nodes, plan_rollout
from kubewright.local.controllers.daemonset.pod import (
    build_affinity,
    build_tolerations,
    target_node,
)
from kubewright.local.controllers.daemonset.pod import (
    build_pod as build_daemon,
)
from kubewright.local.controllers.daemonset.replacement_backoff import ReplacementBackoff
from kubewright.local.controllers.daemonset.status import build_status
from kubewright.local.controllers.scheduler.node_info import NodeInfo

NEW, OLD = "new", "old"


def daemon(node: str, hashed: str = NEW, name: str | None = None, **fields: Any) -> Object:
    labels = {"app": "web", "controller-revision-hash": hashed}
    return build_pod(name or f"{hashed}-{node}", node=node, labels=labels, **fields)


def place(pods: list[Object], nodes: list[Object] | None = None, **spec: Any) -> Placement:
    nodes = [build_node("a"), build_node("b"), build_node("c")] if nodes is None else nodes
    infos = [NodeInfo.of(node) for node in nodes]
    return Placement(DaemonSet(build_daemon_set(**spec)), infos, pods, NEW, NOW)


def words(plan: Plan) -> tuple[list[str], list[str]]:
    return plan.create, sorted(pod["metadata"]["name"] for pod in plan.delete)


def manage(pods: list[Object], **fields: Any) -> tuple[list[str], list[str]]:
    return words(plan_nodes(place(pods, **fields), lambda node: True))


def roll(pods: list[Object], **rolling: Any) -> tuple[list[str], list[str]]:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return words(plan_rollout(place(pods, updateStrategy=strategy)))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], (["a", "b", "c"], [])),
        ([daemon("a"), daemon("b", OLD)], (["c"], [])),
        # A node whose pod is ending waits for it to be gone.
        ([daemon("a", deleting=True), daemon("b"), daemon("c")], ([], [])),
        # An end that only a finalizer holds up keeps no node waiting.
        ([daemon("a", phase="Failed", deleting=True), daemon("b"), daemon("c")], (["a"], [])),
        ([daemon("a", phase="Failed"), daemon("b"), daemon("c")], ([], ["new-a"])),
        ([daemon("a", phase="Succeeded"), daemon("b"), daemon("c")], ([], ["new-a"])),
        # The younger of two goes; one without node is younger than all.
        (
            [daemon("a"), daemon("a", name="young", ready_for=1), daemon("b"), daemon("c")],
            ([], ["young"]),
        ),
    ],
)
def test_each_node_gets_one_pod(pods: list[Object], expected: tuple[list[str], list[str]]) -> None:
    assert manage(pods) == expected


def test_a_pod_for_a_node_that_is_gone_goes_while_it_has_no_node() -> None:
    waiting = daemon("", name="waiting", affinity=build_affinity(None, "gone"))
    assert manage([waiting, daemon("gone")], nodes=[]) == ([], ["waiting"])


@pytest.mark.parametrize(
    ("node", "runs", "stays"),
    [
        (build_node("a"), True, True),
        (build_node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), False, True),
        (build_node("a", taints=[{"key": "k", "effect": "NoExecute"}]), False, False),
        (build_node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), True, True),
        (
            build_node(
                "a", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
            ),
            True,
            True,
        ),
    ],
)
def test_taints_keep_pods_away_and_some_drive_them_off(
    node: Object, runs: bool, stays: bool
) -> None:
    create, delete = manage([], nodes=[node])
    assert create == (["a"] if runs else [])
    create, delete = manage([daemon("a")], nodes=[node])
    assert delete == ([] if stays else ["new-a"])


def test_a_node_that_no_longer_matches_loses_its_pod() -> None:
    template = build_daemon_set()["spec"]["template"]
    template["spec"]["nodeSelector"] = {"disk": "ssd"}
    fits = build_node("b", labels={"disk": "ssd"})
    nodes = [build_node("a"), fits]
    assert manage([daemon("a")], nodes=nodes, template=template) == (["b"], ["new-a"])


@pytest.mark.parametrize(
    ("pods", "rolling", "expected"),
    [
        ([daemon(n, OLD) for n in "abc"], {"maxUnavailable": 1}, ["old-a"]),
        ([daemon(n, OLD) for n in "abc"], {"maxUnavailable": 2}, ["old-a", "old-b"]),
        ([daemon(n, OLD) for n in "abc"], {"maxUnavailable": "34%"}, ["old-a", "old-b"]),
        ([daemon(n, OLD) for n in "abc"], {"maxUnavailable": 0}, ["old-a"]),
        # What serves nobody is replaced whatever the budget, and takes from it.
        ([daemon("a", OLD, ready=False), daemon("b", OLD), daemon("c", OLD)], {}, ["old-a"]),
        ([daemon("a", ready=False), daemon("b", OLD), daemon("c", OLD)], {}, []),
        ([daemon("a", deleting=True), daemon("b", OLD), daemon("c", OLD)], {}, []),
        ([daemon("b", OLD), daemon("c", OLD)], {}, []),
        ([daemon("a"), daemon("b"), daemon("c", OLD)], {}, ["old-c"]),
    ],
)
def test_an_update_takes_no_more_nodes_than_may_be_unavailable(
    pods: list[Object], rolling: Object, expected: list[str]
) -> None:
    assert roll(pods, **rolling) == ([], expected)


def test_on_delete_updates_nothing() -> None:
    pods = [daemon(n, OLD) for n in "abc"]
    assert words(plan_rollout(place(pods, updateStrategy={"type": "OnDelete"}))) == ([], [])


@pytest.mark.parametrize(
    ("pods", "create", "delete"),
    [
        ([daemon(n, OLD) for n in "abc"], ["a"], []),
        ([daemon("a"), daemon("a", OLD), daemon("b", OLD), daemon("c", OLD)], ["b"], ["old-a"]),
        ([daemon("a", ready=False), *(daemon(n, OLD) for n in "abc")], [], []),
        # A node without an available pod loses nothing by a new one.
        ([daemon("a", OLD, ready=False), daemon("b", OLD), daemon("c", OLD)], ["a", "b"], []),
    ],
)
def test_a_surge_makes_the_new_pod_before_the_old_one_goes(
    pods: list[Object], create: list[str], delete: list[str]
) -> None:
    assert roll(pods, maxSurge=1, maxUnavailable=0) == (create, delete)


def test_two_pods_of_a_surge_are_left_alone_until_the_new_one_is_available() -> None:
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    nodes = [build_node("a")]

    def manage_surge(*pods: Object) -> tuple[list[str], list[str]]:
        return manage(list(pods), nodes=nodes, updateStrategy=surge)

    assert manage_surge(daemon("a", ready=False), daemon("a", OLD)) == ([], [])
    assert manage_surge(daemon("a"), daemon("a", OLD)) == ([], ["old-a"])
    both_broken = [daemon("a", ready=False), daemon("a", OLD, ready=False)]
    assert manage_surge(*both_broken) == ([], ["old-a"])
    # With surge, an ending pod does not keep the node from getting the next one.
    assert manage_surge(daemon("a", deleting=True)) == (["a"], [])


def test_a_pod_is_made_for_its_node_and_tolerates_what_is_wrong_with_it() -> None:
    daemon_set = build_daemon_set()
    daemon_set["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "7"}
    template = daemon_set["spec"]["template"]["spec"]
    template["hostNetwork"] = True
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
    template["tolerations"] = [own]
    pod = build_daemon(DaemonSet(daemon_set), NEW, "a", "agent-x", "agent-")
    assert pod["metadata"]["labels"]["pod-template-generation"] == "7"
    assert target_node(pod) == "a"
    tolerations = build_tolerations(DaemonSet(daemon_set))
    assert tolerations[0] == own
    assert tolerations[-1]["key"] == "node.kubernetes.io/network-unavailable"
    assert len(tolerations) == 8


def test_the_status_counts_nodes() -> None:
    nodes = [
        *(build_node(n) for n in "abc"),
        build_node("d", taints=[{"key": "k", "effect": "NoSchedule"}]),
    ]
    pods = [daemon("a"), daemon("b", OLD, ready=False), daemon("d")]
    assert build_status(place(pods, nodes=nodes), 0) == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "updatedNumberScheduled": 1,
        "observedGeneration": 1,
    }


def test_a_pod_that_keeps_failing_is_replaced_ever_more_slowly() -> None:
    backoff, now = ReplacementBackoff(), 0.0
    waits = []
    for _ in range(12):
        assert not backoff.wait(("d", 1), "a", now)
        wait = backoff.wait(("d", 1), "a", now)
        waits.append(wait.total_seconds())
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert not backoff.wait(("d", 1), "b", now)
    assert not backoff.wait(("d", 1), "a", now + 3600)
    assert backoff.wait(("d", 1), "a", now + 3600).total_seconds() == 1
    backoff.forget("d", 2)
    assert not backoff.wait(("d", 1), "a", now + 3600)
