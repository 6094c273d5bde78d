from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kubewright.local.apiserver.schema.node import DEDUCED, SchemaNode, compile_schema

DEFINITIONS: dict[str, dict[str, Any]] = {
    "Tree": {
        "type": "object",
        "properties": {"child": {"$ref": "#/definitions/Tree"}, "name": {"type": "string"}},
    },
    "Atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {}}},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
}


def compiled(schema: Mapping[str, Any]) -> SchemaNode:
    return compile_schema(schema, DEFINITIONS.__getitem__)


def test_recursive_types_are_compiled_once() -> None:
    node = compiled({"$ref": "#/components/schemas/Tree"})
    assert node.fields["child"].fields["child"] is node.fields["child"]
    assert node.fields["child"].name == "Tree"


def test_definitions_are_asked_for_when_needed() -> None:
    asked: list[str] = []

    def resolve(name: str) -> Mapping[str, Any]:
        asked.append(name)
        return DEFINITIONS[name]

    node = compile_schema({"properties": {"t": {"$ref": "#/$defs/Tree"}}}, resolve)
    assert node.fields["t"] is not None
    assert asked == []
    assert node.fields["t"].kind == "object"
    assert node.fields["t"].fields["child"].kind == "object"
    assert asked == ["Tree"]


def test_reference_in_all_of_keeps_what_stands_beside_it() -> None:
    node = compiled(
        {
            "allOf": [{"$ref": "#/components/schemas/Tree"}],
            "default": {},
            "x-kubernetes-map-type": "atomic",
        }
    )
    assert (node.default, node.map_type, node.name) == ({}, "atomic", "Tree")
    assert compiled({"$ref": "#/components/schemas/Tree"}).map_type == "granular"


@pytest.mark.parametrize(
    ("schema", "kind", "scalar"),
    [
        ({"type": "integer"}, "scalar", "numeric"),
        ({"type": ["string", "null"]}, "scalar", "string"),
        ({"type": "boolean"}, "scalar", "boolean"),
        ({"x-kubernetes-int-or-string": True}, "untyped", "any"),
        ({"type": "string", "format": "int-or-string"}, "scalar", "any"),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, "scalar", "any"),
        ({"$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"}, "scalar", "any"),
        ({"type": "array", "items": {}}, "array", "any"),
        ({"type": "object"}, "object", "any"),
        ({}, "untyped", "any"),
    ],
)
def test_tells_kinds_apart(schema: dict[str, Any], kind: str, scalar: str) -> None:
    node = compiled(schema)
    assert (node.kind, node.scalar) == (kind, scalar)


def test_lists_are_atomic_unless_said_otherwise() -> None:
    assert compiled({"type": "array", "items": {}}).list_type == "atomic"
    node = compiled(
        {
            "type": "array",
            "items": {},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"],
            "x-kubernetes-patch-merge-key": "a",
            "x-kubernetes-patch-strategy": "merge,retainKeys",
        }
    )
    assert (node.list_type, node.list_map_keys) == ("map", ("a", "b"))
    assert node.patch_merge_key == "a"
    assert node.patch_strategy == {"merge", "retainKeys"}


def test_objects_are_closed_where_they_declare_fields() -> None:
    text = {"type": "string"}
    assert compiled({"type": "object", "properties": {"a": text}}).values is None
    assert compiled({"type": "object"}).values is DEDUCED
    values = compiled({"type": "object", "additionalProperties": text}).values
    assert values is not None
    assert values.scalar == "string"


def test_preserving_unknown_fields_is_inherited_by_what_is_inline() -> None:
    node = compiled(
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "inline": {"type": "object", "properties": {"a": {}}},
                "named": {"$ref": "#/definitions/Atomic"},
            },
        }
    )
    assert node.values is DEDUCED
    assert node.fields["inline"].values is DEDUCED
    assert node.fields["named"].values is None


def test_embedded_resources_declare_their_type_and_metadata() -> None:
    node = compiled({"type": "object", "x-kubernetes-embedded-resource": True})
    assert set(node.fields) == {"apiVersion", "kind", "metadata"}


def test_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        _ = compiled({}).nonsense  # type: ignore[attr-defined]  # it is what is tried
