from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import APIError, BadRequest, Invalid
from kubewright.local.apiserver.patch.strategic_merge import apply_patch
from kubewright.local.apiserver.schema.node import compile_schema

TEXT = {"type": "string"}


def merge_list(items: dict[str, Any], key: str = "") -> dict[str, Any]:
    node: dict[str, Any] = {"type": "array", "items": items, "x-kubernetes-patch-strategy": "merge"}
    return {**node, "x-kubernetes-patch-merge-key": key} if key else node


ENV = {"type": "object", "properties": {"name": TEXT, "value": TEXT}}
ITEM = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "image": TEXT,
        "args": {"type": "array", "items": TEXT},
        "env": merge_list(ENV, "name"),
    },
}
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "items": merge_list(ITEM, "name"),
            "finalizers": merge_list(TEXT),
            "strategy": {
                "type": "object",
                "properties": {"type": TEXT, "rolling": {"type": "object"}},
                "x-kubernetes-patch-strategy": "retainKeys",
            },
            "whole": {
                "type": "object",
                "additionalProperties": TEXT,
                "x-kubernetes-patch-strategy": "replace",
            },
            "labels": {"type": "object", "additionalProperties": TEXT},
            "keyless": merge_list(ITEM),
        },
    },
    lambda name: {},
)
DOC: dict[str, Any] = {
    "items": [
        {"name": "c", "image": "i", "args": ["a"], "env": [{"name": "X", "value": "1"}]},
        {"name": "d", "image": "j"},
    ],
    "finalizers": ["a", "b", "c"],
    "strategy": {"type": "R", "rolling": {"x": 1}},
    "whole": {"a": "1"},
    "labels": {"x": "1", "y": "2"},
    "keyless": [{"name": "k"}],
}


ORDER_FAULT = """The order in patch list:
[map[name:c]]
 doesn't match $setElementOrder list:
[map[name:d]]
"""


def names(doc: dict[str, Any]) -> list[str]:
    return [item["name"] for item in doc["items"]]


def test_merges_items_by_key_and_replaces_atomic_lists() -> None:
    patch = {"items": [{"name": "c", "args": ["z"], "env": [{"name": "Y", "value": "2"}]}]}
    assert apply_patch(DOC, patch, SCHEMA)["items"] == [
        {
            "name": "c",
            "image": "i",
            "args": ["z"],
            "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
        },
        {"name": "d", "image": "j"},
    ]


@pytest.mark.parametrize(
    ("patch", "order"),
    [
        ({"items": [{"name": "n"}]}, ["n", "c", "d"]),
        ({"items": [{"name": "d"}]}, ["c", "d"]),
        ({"items": [{"name": "d", "image": "k"}, {"name": "n"}]}, ["c", "d", "n"]),
        ({"items": [{"name": "c", "$patch": "delete"}]}, ["d"]),
        ({"items": [{"name": "o"}, {"$patch": "replace"}]}, ["o"]),
        ({"items": [{"$patch": "replace"}]}, []),
        ({"$setElementOrder/items": [{"name": "d"}, {"name": "c"}]}, ["d", "c"]),
        (
            {
                "$setElementOrder/items": [{"name": "d"}, {"name": "n"}, {"name": "c"}],
                "items": [{"name": "n"}],
            },
            ["d", "n", "c"],
        ),
        (
            {
                "$setElementOrder/items": [{"name": "n"}],
                "items": [{"name": "n"}, {"name": "d", "$patch": "delete"}],
            },
            ["c", "n"],
        ),
    ],
)
def test_keeps_and_sets_the_order(patch: dict[str, Any], order: list[str]) -> None:
    assert names(apply_patch(DOC, patch, SCHEMA)) == order


@pytest.mark.parametrize(
    ("patch", "finalizers"),
    [
        ({"finalizers": ["d"]}, ["d", "a", "b", "c"]),
        ({"finalizers": ["a", "c"]}, ["a", "b", "c"]),
        ({"finalizers": []}, ["a", "b", "c"]),
        ({"$deleteFromPrimitiveList/finalizers": ["b", "z"]}, ["a", "c"]),
        (
            {"finalizers": ["d"], "$setElementOrder/finalizers": ["d", "c", "a"]},
            ["d", "b", "c", "a"],
        ),
    ],
)
def test_merges_primitives_as_sets(patch: dict[str, Any], finalizers: list[str]) -> None:
    assert apply_patch(DOC, patch, SCHEMA)["finalizers"] == finalizers


@pytest.mark.parametrize(
    ("patch", "key", "value"),
    [
        ({"labels": {"x": None, "z": "3"}}, "labels", {"y": "2", "z": "3"}),
        ({"labels": {"$patch": "replace", "z": "3"}}, "labels", {"z": "3"}),
        ({"labels": {"$patch": "delete"}}, "labels", {}),
        ({"labels": None}, "labels", None),
        ({"fresh": {"a": None, "b": 1}}, "fresh", {"b": 1}),
        ({"fresh": {"$patch": "nonsense"}}, "fresh", None),
        ({"whole": {"b": "2"}}, "whole", {"b": "2"}),
        ({"strategy": {"$retainKeys": ["type"], "type": "N"}}, "strategy", {"type": "N"}),
        ({"strategy": {"type": "N"}}, "strategy", {"type": "N", "rolling": {"x": 1}}),
    ],
)
def test_merges_maps_with_directives(patch: dict[str, Any], key: str, value: Any) -> None:
    assert apply_patch(DOC, patch, SCHEMA).get(key) == value


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            {"labels": {"$patch": "odd", "a": "b"}},
            "unknown patch type: odd in map: map[$patch:odd a:b]",
        ),
        (
            {"items": [{"name": "c", "$patch": "odd"}]},
            "unknown patch type: odd in map: map[$patch:odd name:c]",
        ),
        (
            {"items": [{"image": "x"}]},
            "map: map[image:x] does not contain declared merge key: name",
        ),
        ({"items": [{"$patch": "merge"}]}, "merging lists cannot yet be specified in the patch"),
        ({"keyless": [{"name": "x"}]}, "cannot merge lists without merge key for "),
        ({"finalizers": [1]}, "list element types are not identical: [[a b c] [1]]"),
        (
            {"items": [{"name": "c"}], "$setElementOrder/items": [{"name": "d"}]},
            ORDER_FAULT,
        ),
    ],
)
def test_refuses_bad_directives(patch: dict[str, Any], message: str) -> None:
    with pytest.raises(APIError) as refused:
        apply_patch(DOC, patch, SCHEMA)
    assert refused.value.message == message
    assert (refused.value.code, refused.value.reason, refused.value.details) == (500, "", None)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            {"strategy": {"$retainKeys": ["type"], "rolling": {}}},
            "invalid patch format of retainKeys",
        ),
        ({"strategy": {"$retainKeys": "type"}}, "invalid patch format of retainKeys"),
        ({"$setElementOrder": [1]}, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList": [1]}, "invalid patch format of primitive list"),
        ([1], "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_refuses_bad_formats(patch: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        apply_patch(DOC, patch, SCHEMA)
    assert refused.value.message == message


def test_refuses_lists_of_lists() -> None:
    with pytest.raises(Invalid):
        apply_patch({"finalizers": [["a"]]}, {"finalizers": [["b"]]}, SCHEMA)


def test_leaves_document_and_patch_alone() -> None:
    patch = {"items": [{"name": "c", "$patch": "delete"}], "$setElementOrder/items": []}
    before = repr(DOC), repr(patch)
    apply_patch(DOC, patch, SCHEMA)
    assert (repr(DOC), repr(patch)) == before
