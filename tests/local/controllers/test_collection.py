from __future__ import annotations

import pytest

from kubewright.api.metadata import ObjectMeta, OwnerReference
from kubewright.local.controllers.garbage_collector.decision import (
    Delete,
    DropReferences,
    Keep,
    OwnerState,
    build_finalizer_patch,
    build_references_patch,
    plan_collection,
)
from kubewright.local.controllers.garbage_collector.graph import FOREGROUND, ORPHAN

SOLID, WAITING, ABSENT = OwnerState.SOLID, OwnerState.WAITING, OwnerState.ABSENT


def build_meta(*owners: str, finalizers: list[str] | None = None) -> ObjectMeta:
    references = [OwnerReference("v1", "ConfigMap", owner, owner) for owner in owners]
    return ObjectMeta(
        name="o", uid="u", resource_version="7", owner_references=references, finalizers=finalizers
    )


def test_an_object_without_owners_is_kept() -> None:
    assert plan_collection(build_meta(), {}, has_dependents=False) == Keep()


def test_one_solid_owner_keeps_it_and_dead_references_go() -> None:
    meta = build_meta("a", "b")
    assert plan_collection(meta, {"a": SOLID, "b": SOLID}, has_dependents=False) == Keep()
    for state in (ABSENT, WAITING):
        decision = plan_collection(meta, {"a": state, "b": SOLID}, has_dependents=True)
        assert isinstance(decision, DropReferences)
        assert [reference.uid for reference in decision.remaining] == ["b"]


@pytest.mark.parametrize(
    ("state", "has_dependents", "finalizers", "propagation"),
    [
        (ABSENT, True, None, "Background"),
        (WAITING, False, None, "Background"),
        (WAITING, True, None, "Foreground"),
        (ABSENT, True, [ORPHAN], "Orphan"),
        (ABSENT, True, [FOREGROUND], "Foreground"),
    ],
)
def test_without_a_solid_owner_it_is_deleted(
    state: OwnerState, has_dependents: bool, finalizers: list[str] | None, propagation: str
) -> None:
    meta = build_meta("a", finalizers=finalizers)
    decision = plan_collection(meta, {"a": state}, has_dependents=has_dependents)
    assert isinstance(decision, Delete)
    assert decision.propagation == propagation


def test_a_circle_of_foreground_deletions_is_broken() -> None:
    decision = plan_collection(build_meta("a"), {"a": WAITING}, has_dependents=True, in_circle=True)
    assert decision == Delete("Foreground", unblock=True)


def test_patches_are_guarded_by_the_version_that_was_read() -> None:
    meta = build_meta("a", finalizers=["x", ORPHAN])
    patch = build_references_patch(meta, ())
    assert patch == {"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": None}}
    assert build_finalizer_patch(meta, ORPHAN)["metadata"]["finalizers"] == ["x"]
