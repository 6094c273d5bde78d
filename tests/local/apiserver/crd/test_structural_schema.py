from __future__ import annotations

import copy
import importlib
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.local.apiserver.crd.structural_schema import StructuralSchema

LEAVES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "maxLength": 3},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "integer", "minimum": 0},
    {"type": "integer", "default": 3},
    {"type": "string", "nullable": True},
    {"type": "string", "default": "d", "nullable": True},
    {"type": "boolean", "default": True},
]


def _objects(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from("abcd"), children, max_size=3)
    closed = named.map(lambda properties: {"type": "object", "properties": properties})
    keeping = closed.map(lambda schema: {**schema, "x-kubernetes-preserve-unknown-fields": True})
    maps = children.map(lambda child: {"type": "object", "additionalProperties": child})
    lists = children.map(lambda child: {"type": "array", "items": child})
    defaulted = closed.map(lambda schema: {**schema, "default": {}})
    return st.one_of(closed, keeping, maps, lists, defaulted)


schemas = st.recursive(st.sampled_from(LEAVES), _objects, max_leaves=8).map(
    lambda schema: {"type": "object", "properties": {"spec": schema}}
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b", "long"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcde"), inner, max_size=3)
    ),
    max_leaves=10,
)
objects = values.map(lambda value: {"kind": "K", "metadata": {"name": "n"}, "spec": value, "x": 1})


@given(schemas, objects)
@settings(max_examples=150, deadline=None)
def test_pruning_twice_is_pruning_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    node, obj = StructuralSchema(schema), copy.deepcopy(obj)
    node.prune(obj)
    once = copy.deepcopy(obj)
    assert node.prune(obj) == []
    assert obj == once


@given(schemas, objects)
@settings(max_examples=150, deadline=None)
def test_defaulting_twice_is_defaulting_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    node, obj = StructuralSchema(schema), copy.deepcopy(obj)
    node.default(obj)
    once = copy.deepcopy(obj)
    node.default(obj)
    assert obj == once


@given(schemas, objects)
@settings(max_examples=150, deadline=None)
def test_defaults_keep_a_valid_object_valid(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    node, obj = StructuralSchema(schema), copy.deepcopy(obj)
    node.prune(obj)
    if not node.validate(obj):
        node.default(obj)
        assert node.validate(obj) == []


@given(st.sampled_from(LEAVES[:4]), values)
@settings(max_examples=200, deadline=None)
def test_agrees_with_json_schema_on_plain_rules(leaf: dict[str, Any], value: Any) -> None:
    oracle = importlib.import_module("jsonschema").Draft7Validator(leaf)
    assert (StructuralSchema(leaf).validate(value) == []) == oracle.is_valid(value)


def test_prunes_at_every_depth_and_names_what_is_gone() -> None:
    schema = StructuralSchema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "list": {
                            "type": "array",
                            "items": {"type": "object", "properties": {"n": {"type": "string"}}},
                        },
                        "map": {"type": "object", "additionalProperties": {"type": "object"}},
                    },
                }
            },
        }
    )
    obj = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"anything": 1},
        "spec": {"list": [{"n": "a", "m": 1}, 5], "map": {"k": {"z": 1}}, "odd": {}},
        "extra": 1,
    }
    assert schema.prune(obj) == ["extra", "spec.list[0].m", "spec.map.k.z", "spec.odd"]
    assert obj["spec"] == {"list": [{"n": "a"}, 5], "map": {"k": {}}}
    assert obj["metadata"] == {"anything": 1}


def test_preserved_parts_keep_unknown_fields_but_not_inside_declared_ones() -> None:
    schema = StructuralSchema(
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"strict": {"type": "object", "properties": {"k": {"type": "string"}}}},
        }
    )
    obj: dict[str, Any] = {"free": {"a": [{"b": 1}]}, "strict": {"k": "v", "l": 1}}
    assert schema.prune(obj) == ["strict.l"]
    assert obj == {"free": {"a": [{"b": 1}]}, "strict": {"k": "v"}}


def test_embedded_objects_keep_type_and_metadata() -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object"}},
    }
    schema = StructuralSchema({"type": "object", "properties": {"e": embedded}})
    obj: dict[str, Any] = {
        "e": {"kind": "K", "apiVersion": "v1", "metadata": {}, "spec": {"x": 1}, "y": 1}
    }
    assert schema.prune(obj) == ["e.spec.x", "e.y"]


def test_whole_numbers_become_integers_as_go_writes_them() -> None:
    schema = StructuralSchema({"type": "object", "properties": {"i": {"type": "integer"}}})
    obj: dict[str, Any] = {"i": 1.0}
    schema.prune(obj)
    assert repr(obj["i"]) == "1"


@pytest.mark.parametrize(
    ("given_spec", "expected"),
    [
        ({}, {"d": "x", "o": {"n": 1}}),
        ({"d": None, "o": None, "plain": None}, {"d": "x", "o": {"n": 1}}),
        ({"nd": None}, {"d": "x", "nd": None, "o": {"n": 1}}),
        ({"d": "", "o": {"n": 0}}, {"d": "", "o": {"n": 0}}),
        ({"l": [{}, None]}, {"d": "x", "l": [{"p": "TCP"}, None], "o": {"n": 1}}),
    ],
)
def test_fills_in_defaults_and_drops_nulls(
    given_spec: dict[str, Any], expected: dict[str, Any]
) -> None:
    schema = StructuralSchema(
        {
            "type": "object",
            "properties": {
                "d": {"type": "string", "default": "x"},
                "nd": {"type": "string", "nullable": True},
                "plain": {"type": "string"},
                "o": {
                    "type": "object",
                    "default": {},
                    "properties": {"n": {"type": "integer", "default": 1}},
                },
                "l": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "nullable": True,
                        "properties": {"p": {"type": "string", "default": "TCP"}},
                    },
                },
            },
        }
    )
    schema.default(given_spec)
    assert given_spec == expected


def test_defaults_are_copies() -> None:
    schema = StructuralSchema(
        {"type": "object", "properties": {"a": {"type": "array", "default": [1]}}}
    )
    first: dict[str, Any] = {}
    schema.default(first)
    first["a"].append(2)
    second: dict[str, Any] = {}
    schema.default(second)
    assert second == {"a": [1]}


def test_prunes_defaults_and_validates_a_usual_object_in_microseconds() -> None:
    container = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 63},
            "image": {"type": "string"},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]},
        },
    }
    spec = {"type": "object", "properties": {"list": {"type": "array", "items": container}}}
    schema = StructuralSchema({"type": "object", "properties": {"spec": spec}})
    item = {"name": "c", "image": "i" * 60, "port": 80, "protocol": "UDP"}
    obj = {"spec": {"list": [dict(item) for _ in range(25)]}}
    schema.validate(obj)
    best = min(_seconds(schema, obj) for _ in range(30))
    # Generous: it takes 30 µs on an idle machine; this fails when a pass turns quadratic.
    assert best < 0.001


def _seconds(schema: StructuralSchema, obj: dict[str, Any]) -> float:
    started = time.perf_counter()
    schema.prune(obj)
    schema.default(obj)
    assert schema.validate(obj) == []
    return time.perf_counter() - started
