"""Validation of metadata, shared by built-in and custom kinds."""

from __future__ import annotations

import pytest

from kubewright.api.resource import Object
from kubewright.local.apiserver.objectmeta import (
    dns_label,
    path_segment,
    validate_object_meta,
    validate_object_meta_update,
)

META: Object = {"name": "a", "namespace": "ns"}


def faults(**meta: object) -> list[str]:
    found = validate_object_meta({**META, **meta}, namespaced=True)
    return [f"{cause.field}: {cause.message}" for cause in found]


def test_accepts_plain_metadata() -> None:
    assert faults(labels={"a.b/c": "d"}, annotations={"X": "y"}, finalizers=["a/b"]) == []


def test_needs_a_name() -> None:
    assert faults(name="") == ["metadata.name: Required value: name or generateName is required"]


@pytest.mark.parametrize("name", ["UPPER", "a_b", "-a", "a" * 254])
def test_names_are_subdomains(name: str) -> None:
    assert [fault.partition(":")[0] for fault in faults(name=name)] == ["metadata.name"]


def test_labels_have_no_dots() -> None:
    found = validate_object_meta({**META, "name": "a.b"}, namespaced=True, name_rule=dns_label)
    assert found[0].message == 'Invalid value: "a.b": must not contain dots'


def test_path_segments_may_be_anything_but_paths() -> None:
    assert path_segment("system:node") == []
    assert path_segment("a/b") == ["may not contain '/'"]


def test_a_trailing_dash_of_a_generated_name_is_no_fault() -> None:
    assert faults(generateName="pod-") == []


def test_long_label_values_are_counted_in_bytes() -> None:
    assert faults(labels={"a": "x" * 64})[0].endswith("must be no more than 63 bytes")


def test_refuses_two_controllers() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    owners = [{**owner, "name": "p", "uid": "u1"}, {**owner, "name": "q", "uid": "u2"}]
    assert faults(ownerReferences=owners)[0].endswith("in references for Pod/p and Pod/q")


def test_refuses_finalizers_that_exclude_each_other() -> None:
    found = faults(finalizers=["orphan", "foregroundDeletion"])
    assert found[0].endswith("finalizer orphan and foregroundDeletion cannot be both set")


def test_core_kinds_want_qualified_finalizers() -> None:
    meta = {**META, "finalizers": ["plain", "kubernetes", "a.b/c"]}
    found = validate_object_meta(meta, namespaced=True, finalizers_need_domain=True)
    assert [cause.field for cause in found] == ["metadata.finalizers[0]"]


def test_no_finalizer_is_added_while_deleting() -> None:
    old = {**META, "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    found = validate_object_meta_update({**old, "finalizers": ["a/b"]}, old)
    assert found[0].message.endswith('found new finalizers []string{"a/b"}')


def test_uid_is_immutable() -> None:
    old = {**META, "resourceVersion": "1", "uid": "u1"}
    found = validate_object_meta_update({**old, "uid": "u2"}, old)
    assert [(c.field, c.message) for c in found] == [
        ("metadata.uid", 'Invalid value: "u2": field is immutable')
    ]
