from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin import builtin_kinds
from kubewright.local.apiserver.deletion import DeletionPlan, plan_deletion
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.options import DeleteOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kind(plural: str) -> ServedKind:
    return next(k for k in builtin_kinds() if k.resource.plural == plural)


def plan(plural: str, metadata: Object, spec: Object | None = None, **options: Any) -> DeletionPlan:
    obj: Object = {"metadata": {"name": "a", **metadata}, "spec": spec or {}}
    before = repr(obj)
    result = plan_deletion(kind(plural), obj, DeleteOptions(**options), NOW)
    assert repr(obj) == before
    return result


def test_without_finalizers_it_goes_at_once() -> None:
    assert plan("configmaps", {}) == DeletionPlan(None, remove=True)


def test_finalizers_hold_it_and_it_is_marked() -> None:
    result = plan("deployments", {"finalizers": ["x/y"], "generation": 1})
    assert not result.remove
    assert result.obj is not None
    metadata = result.obj["metadata"]
    assert metadata["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == 2


def test_a_second_deletion_changes_nothing() -> None:
    marked = {
        "finalizers": ["x/y"],
        "deletionTimestamp": "2025-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
    }
    assert plan("configmaps", marked) == DeletionPlan(None, remove=False)


@pytest.mark.parametrize(
    ("policy", "finalizers", "expected"),
    [
        ("Foreground", [], ["foregroundDeletion"]),
        ("Orphan", [], ["orphan"]),
        ("Foreground", ["orphan"], ["foregroundDeletion"]),
        (None, ["foregroundDeletion"], ["foregroundDeletion"]),
    ],
)
def test_the_policy_becomes_a_finalizer(
    policy: str | None, finalizers: list[str], expected: list[str]
) -> None:
    result = plan("configmaps", {"finalizers": finalizers}, propagation_policy=policy)
    assert result.obj is not None
    assert result.obj["metadata"]["finalizers"] == expected


def test_background_drops_the_finalizers_of_other_policies() -> None:
    result = plan("configmaps", {"finalizers": ["orphan"]}, propagation_policy="Background")
    assert result.remove


def test_a_job_orphans_unless_told_otherwise() -> None:
    result = plan("jobs", {})
    assert result.obj is not None
    assert result.obj["metadata"]["finalizers"] == ["orphan"]
    assert plan("jobs", {}, propagation_policy="Background").remove


def test_a_pod_on_a_node_has_its_grace_period() -> None:
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": 20}
    result = plan("pods", {"generation": 1}, spec)
    assert not result.remove
    assert result.obj is not None
    assert result.obj["metadata"]["deletionGracePeriodSeconds"] == 20
    assert result.obj["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:20Z"


def test_grace_shortens_and_never_lengthens() -> None:
    marked = {"deletionTimestamp": "2026-01-01T00:00:20Z", "deletionGracePeriodSeconds": 20}
    spec = {"nodeName": "n"}
    assert plan("pods", marked, spec, grace_period_seconds=60) == DeletionPlan(None, remove=False)
    result = plan("pods", marked, spec, grace_period_seconds=5)
    assert result.obj is not None
    assert result.obj["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:05Z"
    assert plan("pods", marked, spec, grace_period_seconds=0).remove


def test_a_pod_without_a_node_goes_at_once() -> None:
    assert plan("pods", {}, {}).remove


def test_a_namespace_terminates_first() -> None:
    result = plan("namespaces", {}, {"finalizers": ["kubernetes"]})
    assert not result.remove
    assert result.obj is not None
    assert result.obj["status"] == {"phase": "Terminating"}
