"""Maps from changed objects to keys."""

from __future__ import annotations

import msgspec
import pytest

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.client.objects import decode_raw_object
from kubewright.runtime.watch import changed_keys, map_to_controller, map_to_label


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
