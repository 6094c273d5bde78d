"""Finalizers change by position and test, so that nobody drops another's."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.runtime.finalizers import plan_ensure_finalizer, plan_remove_finalizer

MINE = "pools.example.com/operator"


def build(*finalizers: str) -> Object:
    metadata: Object = {"name": "x", "resourceVersion": "7"}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def test_the_first_finalizer_makes_the_list_only_for_the_version_that_was_read() -> None:
    assert plan_ensure_finalizer(build(), MINE) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/finalizers", "value": [MINE]},
    ]


def test_a_further_finalizer_is_appended() -> None:
    assert plan_ensure_finalizer(build("other"), MINE) == [
        {"op": "add", "path": "/metadata/finalizers/-", "value": MINE}
    ]


def test_a_finalizer_is_removed_where_it_stands() -> None:
    assert plan_remove_finalizer(build("other", MINE, "third"), MINE) == [
        {"op": "test", "path": "/metadata/finalizers/1", "value": MINE},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]


def test_nothing_to_do_is_no_patch() -> None:
    assert plan_ensure_finalizer(build(MINE), MINE) == []
    assert plan_remove_finalizer(build("other"), MINE) == []
