from __future__ import annotations

import msgspec
from tests.local.controllers.objects import build_node, build_pod
from tests.local.controllers.scheduler.nodes import container, waiting

from kubewright.api import builtin
from kubewright.api.metadata import decode_metadata
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.client.objects import RawObject
from kubewright.local.controllers.scheduler.cluster_state import ClusterState
from kubewright.local.controllers.scheduler.pod_info import PodInfo


def entry(obj: Object) -> Entry:
    raw = msgspec.json.encode(obj)
    resource = builtin.NODE if obj["kind"] == "Node" else builtin.POD
    return Entry(resource, RawObject(decode_metadata(raw), raw))


def added(obj: Object) -> Change:
    return Change(ChangeType.ADDED, entry(obj))


def deleted(obj: Object) -> Change:
    return Change(ChangeType.DELETED, entry(obj))


def taken(state: ClusterState) -> int:
    return state.nodes()[0].requested.get("cpu", 0)


def test_room_is_counted_as_pods_come_and_go_before_and_after_their_node() -> None:
    state = ClusterState()
    state.on_pod(added(build_pod("early", containers=container(cpu="1"))))
    state.on_node(added(build_node()))
    state.on_pod(added(build_pod("late", containers=container(cpu="500m"))))
    assert taken(state) == 1500
    state.on_pod(deleted(build_pod("early", containers=container(cpu="1"))))
    state.on_pod(added(build_pod("late", phase="Succeeded", containers=container(cpu="500m"))))
    assert taken(state) == 0
    assert not state.nodes()[0].pods


def test_an_assumed_pod_takes_room_until_its_store_or_its_failure_settles_it() -> None:
    state = ClusterState()
    state.on_node(added(build_node()))
    pod = waiting(containers=container(cpu="1"))
    state.on_pod(added(pod))
    state.assume(pod, "node-a", is_bound=True)
    state.on_pod(added(pod))
    assert taken(state) == 1000
    assert state.is_bound(pod)
    state.forget(NamespacedName.of(pod))
    assert taken(state) == 0
    state.assume(pod, "node-a", is_bound=True)
    state.on_pod(added(build_pod("new", containers=container(cpu="1"))))
    assert taken(state) == 1000
    assert not state.is_bound(pod)


def test_another_pod_of_the_name_is_not_taken_for_the_assumed_one() -> None:
    state = ClusterState()
    state.on_node(added(build_node()))
    pod = waiting(containers=container(cpu="1"))
    state.assume(pod, "node-a", is_bound=True)
    again = waiting(containers=container(cpu="1"))
    again["metadata"]["uid"] = "another"
    state.on_pod(added(again))
    assert taken(state) == 0


def test_nominated_pods_reserve_room_for_pods_of_their_priority_and_more() -> None:
    state = ClusterState()
    state.on_node(added(build_node()))
    nominated = waiting(priority=5)
    nominated["status"]["nominatedNodeName"] = "node-a"
    state.on_pod(added(nominated))
    lower, higher = (PodInfo.of(waiting("other", priority=p)) for p in (1, 9))
    assert [info.key.name for info in state.reserved(lower)["node-a"]] == ["new"]
    assert not state.reserved(higher)
    assert [key.name for key in state.outranked("node-a", 9)] == ["new"]


def test_more_urgent_pods_that_nobody_tried_come_first() -> None:
    state = ClusterState()
    for name, priority in (("low", 1), ("high", 9), ("higher", 10), ("tried", 11)):
        state.on_pod(added(waiting(name, priority=priority)))
    found = state.more_urgent(1, [NamespacedName("ns", "tried")])
    assert [key.name for key in found] == ["higher", "high"]
    assert not state.more_urgent(11, ())


def test_a_changed_offer_of_a_node_keeps_its_pods() -> None:
    state = ClusterState()
    state.on_node(added(build_node()))
    state.on_pod(added(build_pod("p", containers=container(cpu="1"))))
    state.on_node(added(build_node(cpu="8")))
    (node,) = state.nodes()
    assert (node.allocatable["cpu"], node.requested["cpu"]) == (8000, 1000)
