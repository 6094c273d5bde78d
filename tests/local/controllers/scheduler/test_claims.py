from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.local.controllers.scheduler.nodes import ZONE, node, waiting, zoned

from kubewright.api.resource import Object
from kubewright.local.controllers.scheduler.claims import (
    BOUND_BY_CONTROLLER,
    PodClaims,
    build_volume_binding,
    read_claims,
)
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.placement import Placement, plan_placement

WAITING_CLASS: Object = {"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}


def claim(name: str = "data", size: str = "1Gi", *, bound_to: str = "", **spec: Any) -> Object:
    obj: Object = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {
            "storageClassName": "standard",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
        "status": {"phase": "Bound" if bound_to else "Pending"},
    }
    obj["metadata"]["resourceVersion"] = "7"
    if bound_to:
        obj["spec"]["volumeName"] = bound_to
    return obj


def volume(name: str = "v", size: str = "1Gi", *, on: str = "", **spec: Any) -> Object:
    obj: Object = {
        "metadata": {"name": name, "resourceVersion": "3"},
        "spec": {
            "storageClassName": "standard",
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            **spec,
        },
        "status": {"phase": "Available"},
    }
    if on:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
        terms = [{"matchExpressions": [expression]}]
        obj["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return obj


def mounting(*names: str) -> Object:
    return waiting(volumes=[{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in names])


def read(
    pod: Object,
    claims: list[Object],
    volumes: list[Object] | None = None,
    storage_class: Object | None = None,
) -> PodClaims:
    by_name = {obj["metadata"]["name"]: obj for obj in [*claims, *(volumes or [])]}
    return read_claims(
        pod, by_name.get, lambda _: storage_class, by_name.get, lambda: volumes or []
    )


def place(pod: Object, claims: PodClaims, nodes: list[NodeInfo]) -> Placement:
    return plan_placement(msgspec.structs.replace(Incoming.of(pod), claims=claims), nodes)


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ([], 'persistentvolumeclaim "data" not found. not found'),
        ([claim()], "pod has unbound immediate PersistentVolumeClaims. not found"),
    ],
)
def test_a_pod_waits_for_its_claims(claims: list[Object], problem: str) -> None:
    pod = mounting("data")
    message = place(pod, read(pod, claims), [node()]).message
    assert message == f"0/1 nodes are available: {problem}"


def test_says_that_a_claim_is_lost_or_goes() -> None:
    lost = claim(bound_to="v")
    lost["status"]["phase"] = "Lost"
    going = claim()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    text = 'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"'
    assert read(mounting("data"), [lost]).message == text
    going_text = 'persistentvolumeclaim "data" is being deleted'
    assert read(mounting("data"), [going]).message == going_text


def test_a_pod_follows_its_volume() -> None:
    pod = mounting("data")
    claims = read(pod, [claim(bound_to="v")], [volume(on="b")])
    assert place(pod, claims, [node("a"), node("b")]).node == "b"
    assert place(pod, claims, [node("a")]).message.startswith(
        "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity. "
    )


def test_says_that_the_volume_of_a_claim_is_gone() -> None:
    pod = mounting("data")
    message = place(pod, read(pod, [claim(bound_to="v")]), [node()]).message
    assert "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)" in message


def test_a_claim_that_waits_is_provisioned_where_the_pod_goes() -> None:
    pod = mounting("data")
    claims = read(pod, [claim()], storage_class=WAITING_CLASS)
    placement = place(pod, claims, [node()])
    assert placement.node == "node-a"
    assert [c["metadata"]["name"] for c in placement.volumes.provision] == ["data"]


def test_a_claim_takes_the_smallest_volume_that_will_do() -> None:
    pod = mounting("data")
    volumes = [volume("large", "9Gi"), volume("small", "2Gi"), volume("tiny", "1Mi")]
    claims = read(pod, [claim()], volumes, WAITING_CLASS)
    (binding,) = place(pod, claims, [node()]).volumes.bind
    assert binding.volume["metadata"]["name"] == "small"
    patch = build_volume_binding(binding)
    assert patch["spec"]["claimRef"]["uid"] == "uid-data"
    assert patch["metadata"]["annotations"] == {BOUND_BY_CONTROLLER: "yes"}


def test_two_claims_do_not_take_the_same_volume() -> None:
    pod = mounting("one", "two")
    local = {**WAITING_CLASS, "provisioner": "kubernetes.io/no-provisioner"}
    claims = read(pod, [claim("one"), claim("two")], [volume()], local)
    assert (
        "didn't find available persistent volumes to bind" in place(pod, claims, [node()]).message
    )


def test_a_claim_stays_with_the_node_that_was_selected_for_it() -> None:
    pod = mounting("data")
    selected = claim()
    selected["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "b"}
    claims = read(pod, [selected], storage_class=WAITING_CLASS)
    assert place(pod, claims, [node("a"), node("b")]).node == "b"


def test_a_class_is_provisioned_in_its_topologies_alone() -> None:
    pod = mounting("data")
    expressions = [{"key": ZONE, "values": ["y"]}]
    storage_class = {
        **WAITING_CLASS,
        "allowedTopologies": [{"matchLabelExpressions": expressions}],
    }
    claims = read(pod, [claim()], storage_class=storage_class)
    assert place(pod, claims, [zoned("x", "a"), zoned("y", "b")]).node == "b"


def test_a_claim_for_one_pod_alone_keeps_the_second_out() -> None:
    pod, first = mounting("data"), mounting("data")
    first["metadata"]["name"] = "first"
    first["spec"]["nodeName"] = "node-a"
    sole = claim(bound_to="v", accessModes=["ReadWriteOncePod"])
    claims = read(pod, [sole], [volume()])
    assert (
        "ReadWriteOncePod access mode already in-use"
        in place(pod, claims, [node(pods=[first])]).message
    )
