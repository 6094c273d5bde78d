from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.controllers.objects import build_pod

from kubewright.api.resource import Object
from kubewright.local.controllers.endpoints.backend import find_backends
from kubewright.local.controllers.endpoints.mirroring import build_mirrors, is_mirrored
from kubewright.local.controllers.endpoints.slices import MAX_ENDPOINTS, plan_slices
from kubewright.local.controllers.endpoints.subset_order import port_order
from kubewright.local.controllers.endpoints.subsets import build_endpoints


def build_service(*ports: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "ns", "uid": "s", "labels": {"l": "1"}},
        "spec": {"selector": {"app": "web"}, "ports": list(ports) or [{"port": 80}], **spec},
    }


def addressed(name: str, address: str, **options: Any) -> Object:
    pod = build_pod(name, **options)
    pod["status"]["podIP"] = address
    return pod


def plan(service: Object, pods: list[Object], existing: list[Object]) -> list[Object]:
    """Plan the slices and return them all as they are after the plan."""
    planned = plan_slices(service, find_backends(service, pods, "IPv4"), existing, "IPv4")
    for number, made in enumerate(planned.create):
        made["metadata"]["name"] = f"web-{len(existing)}-{number}"
    gone = {obj["metadata"]["name"] for obj in planned.delete}
    changed = {obj["metadata"]["name"]: obj for obj in planned.update}
    kept = [obj for obj in existing if obj["metadata"]["name"] not in gone]
    return [*(changed.get(obj["metadata"]["name"], obj) for obj in kept), *planned.create]


def addresses(slices: list[Object]) -> list[str]:
    return sorted(e["addresses"][0] for obj in slices for e in obj["endpoints"] or ())


def test_a_service_without_pods_has_one_empty_slice() -> None:
    (empty,) = plan(build_service(), [], [])
    assert (empty["endpoints"], empty["ports"]) == (None, None)
    assert empty["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert plan_slices(build_service(), [], [empty], "IPv4").update == []


def test_the_empty_slice_is_used_for_the_first_pod_and_stays_when_it_goes() -> None:
    service, pod = build_service(), addressed("p", "10.0.0.1")
    before = plan(service, [], [])
    (filled,) = plan(service, [pod], before)
    assert filled["metadata"]["name"] == before[0]["metadata"]["name"]
    assert filled["endpoints"][0]["conditions"] == {
        "ready": True,
        "serving": True,
        "terminating": False,
    }
    (emptied,) = plan(service, [], [filled])
    assert emptied["endpoints"] is None


def test_a_terminating_pod_serves_and_is_not_ready() -> None:
    (obj,) = plan(build_service(), [addressed("p", "10.0.0.1", deleting=True)], [])
    conditions = obj["endpoints"][0]["conditions"]
    assert conditions == {"ready": False, "serving": True, "terminating": True}


def test_unready_addresses_are_published_where_asked() -> None:
    service = build_service(publishNotReadyAddresses=True)
    (backend,) = find_backends(service, [addressed("p", "10.0.0.1", ready=False)], "IPv4")
    assert (backend.ready, backend.serving) == (True, False)


def test_pods_with_another_port_of_the_name_get_a_slice_of_their_own() -> None:
    def serving(name: str, address: str, number: int) -> Object:
        pod = addressed(name, address)
        pod["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": number}]
        return pod

    service = build_service({"name": "a", "port": 80, "targetPort": "web"})
    pods = [serving("p", "10.0.0.1", 8080), serving("q", "10.0.0.2", 8888)]
    slices = plan(service, pods, [])
    assert sorted(obj["ports"][0]["port"] for obj in slices) == [8080, 8888]
    subsets = build_endpoints(service, find_backends(service, pods, "IPv4"), None)["subsets"]
    assert [subset["ports"][0]["port"] for subset in subsets] == [8080, 8888]


def test_finished_pods_and_those_without_address_are_left_out() -> None:
    pods = [build_pod("a"), addressed("b", "10.0.0.1", phase="Failed")]
    assert find_backends(build_service(), pods, "IPv4") == []


def test_endpoints_tell_ready_from_unready_and_leave_out_terminating() -> None:
    pods = [
        addressed("a", "10.0.0.1"),
        addressed("b", "10.0.0.2", ready=False),
        addressed("c", "10.0.0.3", deleting=True),
    ]
    service = build_service()
    endpoints = build_endpoints(service, find_backends(service, pods, "IPv4"), None)
    (subset,) = endpoints["subsets"]
    assert [address["ip"] for address in subset["addresses"]] == ["10.0.0.1"]
    assert [address["ip"] for address in subset["notReadyAddresses"]] == ["10.0.0.2"]
    assert subset["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert "subsets" not in build_endpoints(service, [], None)


counts = st.lists(st.sets(st.integers(0, 250)), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(counts)
def test_slices_hold_every_pod_once_and_a_second_look_changes_nothing(
    steps: list[set[int]],
) -> None:
    service, slices = build_service(), list[Object]()
    for step in steps:
        pods = [addressed(f"p{i}", f"10.0.0.{i}") for i in sorted(step)]
        slices = plan(service, pods, slices)
        assert addresses(slices) == sorted(f"10.0.0.{i}" for i in step)
        assert all(len(obj["endpoints"] or ()) <= MAX_ENDPOINTS for obj in slices)
        again = plan_slices(service, find_backends(service, pods, "IPv4"), slices, "IPv4")
        assert (again.create, again.update, again.delete) == ([], [], [])


def test_endpoints_written_by_hand_are_mirrored() -> None:
    address = {"ip": "192.168.9.9", "hostname": "h", "nodeName": "n"}
    endpoints: Object = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "web", "namespace": "ns", "uid": "e", "annotations": {"a": "1"}},
        "subsets": [{"addresses": [address], "ports": [{"port": 8080, "protocol": "TCP"}]}],
    }
    by_hand = build_service()
    del by_hand["spec"]["selector"]
    assert is_mirrored(endpoints, by_hand)
    assert not is_mirrored(endpoints, build_service())
    assert not is_mirrored(endpoints, None)
    (mirror,) = build_mirrors(endpoints)
    assert mirror["endpoints"] == [
        {
            "addresses": ["192.168.9.9"],
            "conditions": {"ready": True},
            "hostname": "h",
            "nodeName": "n",
        }
    ]
    assert mirror["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    assert mirror["metadata"]["annotations"] == {"a": "1"}


def test_ports_are_listed_as_kube_controller_manager_lists_them() -> None:
    # Recorded: the order is that of a hash of how Go prints them.
    ports = [
        {"name": "a", "port": 8080, "protocol": "TCP"},
        {"name": "b", "port": 81, "protocol": "UDP", "appProtocol": "example.com/x"},
    ]
    assert [port["name"] for port in sorted(ports, key=port_order)] == ["b", "a"]
    assert port_order(ports[1]) == 0x9709E372E1721A4C34422B86B729D8C5


def test_a_port_that_all_offer_is_listed_once_with_all_addresses() -> None:
    service = build_service(
        {"name": "a", "port": 80}, {"name": "b", "port": 81, "targetPort": "http"}
    )
    pods = []
    for name, number in (("p", 8080), ("q", 9090)):
        ports = [{"name": "http", "containerPort": number}]
        containers = [{"name": "c", "image": "i", "ports": ports}]
        pods.append(addressed(name, f"10.0.0.{number // 1000}", containers=containers))
    backends = find_backends(service, pods, "IPv4")
    subsets = build_endpoints(service, backends, None)["subsets"]
    found = {
        subset["ports"][0]["name"] + str(subset["ports"][0]["port"]): len(subset["addresses"])
        for subset in subsets
    }
    assert found == {"a80": 2, "b8080": 1, "b9090": 1}


def test_a_pod_whose_node_is_gone_is_no_endpoint_unless_unready_ones_are() -> None:
    pod = addressed("p", "10.0.0.1", node="gone")
    assert find_backends(build_service(), [pod], "IPv4", {"node-a": {}}) == []
    published = build_service(publishNotReadyAddresses=True)
    assert len(find_backends(published, [pod], "IPv4", {"node-a": {}})) == 1


def test_traffic_that_should_stay_near_is_hinted_at() -> None:
    nodes = {"node-a": {"topology.kubernetes.io/zone": "z"}}

    def hints(**spec: Any) -> Object | None:
        pods = [addressed("p", "10.0.0.1")]
        (backend,) = find_backends(build_service(**spec), pods, "IPv4", nodes)
        found: Object | None = backend.to_endpoint().get("hints")
        return found

    zone = {"forZones": [{"name": "z"}]}
    assert hints() is None
    assert hints(trafficDistribution="PreferSameZone") == zone
    node = {**zone, "forNodes": [{"name": "node-a"}]}
    assert hints(trafficDistribution="PreferSameNode") == node
