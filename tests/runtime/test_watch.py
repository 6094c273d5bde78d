"""Maps from changed objects to keys."""

from __future__ import annotations

import msgspec
import pytest

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.client.objects import decode_raw_object
from kubewright.runtime.watch import (
    ChangeFilter,
    all_of,
    annotations_changed,
    any_of,
    changed_keys,
    generation_changed,
    is_same_intent,
    labels_changed,
    map_to_controller,
    map_to_label,
)


def pod(**metadata: object) -> Entry:
    obj: Object = {"metadata": {"name": "p", "namespace": "default", **metadata}}
    return Entry(builtin.POD, decode_raw_object(msgspec.json.encode(obj)))


def owned(kind: str, name: str, *, api_version: str = "apps/v1", controller: bool = True) -> Entry:
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": "1"}
    return pod(ownerReferences=[{**reference, "controller": controller}])


@pytest.mark.parametrize(
    ("entry", "keys"),
    [
        (owned("ReplicaSet", "rs"), [NamespacedName("default", "rs")]),
        (owned("ReplicaSet", "rs", api_version="apps/v2"), [NamespacedName("default", "rs")]),
        (owned("ReplicaSet", "rs", api_version="other/v1"), []),
        (owned("ReplicaSet", "rs", controller=False), []),
        (owned("StatefulSet", "rs"), []),
        (pod(), []),
    ],
)
def test_a_child_leads_to_its_controller(entry: Entry, keys: list[NamespacedName]) -> None:
    assert list(map_to_controller(builtin.REPLICA_SET)(entry)) == keys


def test_a_controller_of_the_cluster_has_no_namespace() -> None:
    assert list(map_to_controller(builtin.NODE)(owned("Node", "n", api_version="v1"))) == [
        NamespacedName("", "n")
    ]


def test_a_label_names_a_key_in_the_same_namespace() -> None:
    mapping = map_to_label("app")
    assert list(mapping(pod(labels={"app": "a"}))) == [NamespacedName("default", "a")]
    assert list(mapping(pod())) == []


def test_a_change_concerns_old_and_new_once() -> None:
    mapping = map_to_label("app")
    before, after = pod(labels={"app": "a"}), pod(labels={"app": "b"})
    moved = Change(ChangeType.MODIFIED, after, before)
    assert [key.name for key in changed_keys(mapping, moved)] == ["b", "a"]
    same = Change(ChangeType.MODIFIED, after, after)
    assert [key.name for key in changed_keys(mapping, same)] == ["b"]


BEFORE: dict[str, object] = {"generation": 1, "labels": {"a": "1"}, "annotations": {"x": "1"}}
DELETING = {"deletionTimestamp": "2026-11-28T00:00:00Z"}


def modified(**metadata: object) -> Change:
    return Change(ChangeType.MODIFIED, pod(**{**BEFORE, **metadata}), pod(**BEFORE))


@pytest.mark.parametrize(
    ("change", "passing"),
    [
        (modified(), []),
        (modified(generation=2), [generation_changed]),
        (modified(labels={"a": "2"}), [labels_changed]),
        (modified(labels=None), [labels_changed]),
        (modified(annotations={"x": "2"}), [annotations_changed]),
        (modified(**DELETING), [generation_changed]),
    ],
)
def test_each_filter_lets_its_own_changes_through(
    change: Change, passing: list[ChangeFilter]
) -> None:
    filters = [generation_changed, labels_changed, annotations_changed]
    assert [passes for passes in filters if passes(change)] == passing
    assert any_of(*filters)(change) is bool(passing)
    assert not all_of(*filters)(change)


@pytest.mark.parametrize("type", [ChangeType.ADDED, ChangeType.DELETED])
@pytest.mark.parametrize("passes", [generation_changed, labels_changed, annotations_changed])
def test_what_comes_or_goes_always_passes(type: ChangeType, passes: ChangeFilter) -> None:
    old = pod(**BEFORE) if type is ChangeType.DELETED else None
    assert passes(Change(type, pod(**BEFORE), old))


def test_a_kind_without_generations_passes_always() -> None:
    assert generation_changed(Change(ChangeType.MODIFIED, pod(), pod()))


def test_a_status_is_no_intent_and_all_else_is() -> None:
    before = pod(**BEFORE, uid="1").meta
    assert is_same_intent(before, pod(**BEFORE, uid="1", resourceVersion="9").meta)
    others: list[tuple[str, object]] = [
        ("generation", 2),
        ("labels", {}),
        ("annotations", {}),
        ("uid", "2"),
        *DELETING.items(),
    ]
    for name, value in others:
        assert not is_same_intent(before, pod(**{**BEFORE, "uid": "1", name: value}).meta)
    assert not is_same_intent(pod().meta, pod().meta)
