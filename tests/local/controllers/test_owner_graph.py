from __future__ import annotations

from kubewright.api import builtin
from kubewright.api.metadata import ObjectMeta, OwnerReference
from kubewright.api.resource import Resource
from kubewright.local.controllers.garbage_collector.graph import (
    FOREGROUND,
    ORPHAN,
    Node,
    OwnerGraph,
)


def build_node(
    uid: str,
    *owners: str,
    namespace: str = "ns",
    blocking: bool = False,
    finalizer: str | None = None,
    resource: Resource = builtin.CONFIG_MAP,
    owner_kind: str = "ConfigMap",
) -> Node:
    references = [
        OwnerReference("v1", owner_kind, owner, owner, block_owner_deletion=blocking)
        for owner in owners
    ]
    meta = ObjectMeta(
        name=uid,
        namespace=namespace,
        uid=uid,
        owner_references=references,
        finalizers=[finalizer] if finalizer else None,
        deletion_timestamp="2026-01-01T00:00:00Z" if finalizer else None,
    )
    return Node(resource, meta)


def test_an_object_without_its_owner_is_suspect() -> None:
    graph = OwnerGraph()
    assert graph.put(build_node("child", "owner")) == ["child"]
    assert graph.put(build_node("owner")) == []
    assert graph.put(build_node("child", "owner")) == []


def test_dependents_are_suspect_when_the_owner_goes() -> None:
    graph = OwnerGraph()
    graph.put(build_node("owner"))
    graph.put(build_node("a", "owner"))
    graph.put(build_node("b", "owner"))
    assert graph.remove("owner") == ["a", "b"]
    assert [node.uid for node in graph.dependents("owner")] == ["a", "b"]


def test_an_owner_that_waits_is_looked_at_when_its_dependent_goes() -> None:
    graph = OwnerGraph()
    assert graph.put(build_node("owner", finalizer=FOREGROUND)) == ["owner"]
    assert graph.put(build_node("child", "owner", blocking=True)) == ["child"]
    assert graph.remove("child") == ["owner"]


def test_an_owner_that_waits_is_looked_at_when_its_dependent_stops_blocking() -> None:
    graph = OwnerGraph()
    graph.put(build_node("owner", finalizer=FOREGROUND))
    graph.put(build_node("child", "owner", blocking=True))
    assert "owner" in graph.put(build_node("child", "owner", blocking=False))
    graph.put(build_node("child", "owner", blocking=True))
    assert "owner" in graph.put(build_node("child"))
    assert graph.dependents("owner") == []


def test_an_owner_that_leaves_orphans_is_suspect() -> None:
    assert OwnerGraph().put(build_node("owner", finalizer=ORPHAN)) == ["owner"]


def test_an_owner_in_another_namespace_is_as_good_as_absent() -> None:
    graph = OwnerGraph()
    graph.put(build_node("owner", namespace="elsewhere"))
    assert graph.put(build_node("child", "owner")) == ["child"]


def test_a_cluster_scoped_owner_is_valid_everywhere() -> None:
    graph = OwnerGraph()
    graph.put(build_node("owner", namespace="", resource=builtin.NODE))
    assert graph.put(build_node("child", "owner", owner_kind="Node")) == []


def test_a_reference_that_names_its_owner_wrongly_is_looked_up() -> None:
    graph = OwnerGraph()
    graph.put(build_node("owner"))
    assert graph.put(build_node("child", "owner", owner_kind="Secret")) == ["child"]


def test_forgetting_what_is_not_known_changes_nothing() -> None:
    assert OwnerGraph().remove("nobody") == []
