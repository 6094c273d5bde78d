"""Comparing the ends of two runs: pure."""

from __future__ import annotations

from typing import Any

from kubewright.api.resource import Object
from kubewright.testing.end_state import build_end_state, compare


def build(
    kind: str, name: str, uid: str, *, owner: str = "", managed: bool = False, **fields: Any
) -> Object:
    metadata: Object = {"name": name, "uid": uid, "resourceVersion": uid[-1]}
    metadata["creationTimestamp"] = f"2026-01-01T00:00:0{uid[-1]}Z"
    if owner:
        metadata["ownerReferences"] = [{"kind": "Pool", "name": "pool", "uid": owner}]
    if managed:
        metadata["labels"] = {"app.kubernetes.io/managed-by": "op"}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def uid_of(number: int) -> str:
    return f"00000000-0000-0000-0000-00000000000{number}"


def test_what_no_two_runs_share_is_no_difference() -> None:
    def run(first: int, namespace: str, suffix: str) -> list[Object]:
        pool, child = uid_of(first), uid_of(first + 1)
        fields: Object = {"f:ownerReferences": {f'k:{{"uid":"{pool}"}}': {}}}
        made = build("Pod", f"pod-{suffix}", child, owner=pool, managed=True)
        made["metadata"]["generateName"] = "pod-"
        made["metadata"]["managedFields"] = [{"manager": "op", "fieldsV1": fields}]
        made["metadata"]["namespace"] = namespace
        status = {"nodes": [f"pod-{suffix}"], "since": f"2026-01-0{first}T00:00:00Z"}
        return [build("Pool", "pool", pool, status=status), made]

    first = build_end_state(run(1, "test-a", "x7x"), namespace="test-a", operator="op")
    second = build_end_state(run(5, "test-b", "q2q"), namespace="test-b", operator="op")

    assert first.differences(second) == []
    assert first.orphans == second.orphans == ()
    assert list(first.objects) == ["Pod pod-<generated>", "Pool pool"]


def test_what_the_server_draws_for_a_service_is_no_difference() -> None:
    def run(address: str, port: int) -> list[Object]:
        spec = {"clusterIP": address, "clusterIPs": [address], "ports": [{"nodePort": port}]}
        pod = build("Pod", "pod", uid_of(2), spec={"args": [address]})
        return [build("Service", "svc", uid_of(1), spec=spec), pod]

    first = build_end_state(run("10.96.0.7", 30001), namespace="a", operator="op")
    second = build_end_state(run("10.96.9.9", 32000), namespace="a", operator="op")
    headless = build_end_state(run("None", 32000), namespace="a", operator="op")

    assert first.differences(second) == []
    assert "spec.clusterIP" in "".join(first.differences(headless))


def test_differences_are_told_with_their_path() -> None:
    expected = {"spec": {"ports": [{"port": 80}], "size": 1}, "kind": "A"}
    found = {"spec": {"ports": [{"port": 81}]}, "kind": "A", "more": True}

    assert list(compare(expected, found)) == [
        "more should be absent, is True",
        "spec.ports[0].port should be 80, is 81",
        "spec.size should be 1, is absent",
    ]


def test_missing_and_surplus_objects_are_named() -> None:
    both, first, second = (build("Pod", name, uid_of(1)) for name in ("a", "b", "c"))
    expected = build_end_state([both, first], namespace="ns", operator="op")
    found = build_end_state([both, second], namespace="ns", operator="op")

    assert expected.differences(found) == ["Pod b: is missing", "Pod c: should not exist"]


def test_surplus_objects_of_one_generated_name_are_counted() -> None:
    pods = [build("Pod", f"pod-{number}", uid_of(number)) for number in (1, 2)]
    for pod in pods:
        pod["metadata"]["generateName"] = "pod-"
    expected = build_end_state(pods[:1], namespace="ns", operator="op")
    found = build_end_state(pods, namespace="ns", operator="op")

    assert expected.differences(found) == ["Pod pod-<generated> (2): should not exist"]


def test_orphans_are_what_the_operator_made_and_nobody_owns() -> None:
    pool, gone = uid_of(1), uid_of(9)
    objects = [
        build("Pool", "pool", pool),
        build("Pod", "owned", uid_of(2), owner=pool, managed=True),
        build("Pod", "left", uid_of(3), owner=gone, managed=True),
        build("Pod", "lost", uid_of(4), managed=True),
        build("Pod", "others", uid_of(5), owner=gone),
    ]
    kept = build("Pod", "kept", uid_of(6), managed=True)
    kept["metadata"]["annotations"] = {"kubewright.dev/owner": "pool"}

    state = build_end_state([*objects, kept], namespace="ns", operator="op")

    assert state.orphans == ("Pod left", "Pod lost")
