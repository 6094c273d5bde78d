"""What a status function sees."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.api import builtin
from kubewright.api.resource import Object, Resource
from kubewright.runtime.children import Children
from kubewright.runtime.readiness import Progress


def build(kind: str, name: str, **status: object) -> Object:
    api_version = "apps/v1" if kind == "Deployment" else "v1"
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "generation": 1},
        "status": status,
    }


def test_finds_children_by_kind_and_name() -> None:
    service, deployment = build("Service", "a"), build("Deployment", "a")
    children = Children([service, deployment])
    assert list(children) == [service, deployment]
    assert children.of(builtin.SERVICE) == [service]
    assert children.get(builtin.DEPLOYMENT, "a") is deployment
    assert children.get(builtin.DEPLOYMENT, "b") is None


def test_the_child_that_is_furthest_behind_decides() -> None:
    service, deployment = build("Service", "a"), build("Deployment", "a")
    assert Children([service]).readiness().is_ready
    readiness = Children([service, deployment]).readiness()
    assert readiness.progress is Progress.IN_PROGRESS
    assert readiness.message == "Deployment a: its controller has not seen it yet"
    failed = build("Pod", "p", phase="Failed")
    assert Children([failed, deployment]).readiness().progress is Progress.FAILED


def test_a_claim_that_nobody_uses_yet_holds_up_nobody() -> None:
    assert Children([build("PersistentVolumeClaim", "a", phase="Pending")]).readiness().is_ready
    lost = Children([build("PersistentVolumeClaim", "a", phase="Lost")]).readiness()
    assert not lost.is_ready


def test_other_kinds_are_found_by_name() -> None:
    def find(resource: Resource, labels: Mapping[str, str]) -> list[Object]:
        assert (resource, labels) == (builtin.POD, {"app": "a"})
        return [build("Pod", "b"), build("Pod", "a")]

    found = Children([], find).find(builtin.POD, {"app": "a"})
    assert [pod["metadata"]["name"] for pod in found] == ["a", "b"]
    assert Children([]).find(builtin.POD, {}) == []
