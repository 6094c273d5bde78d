from __future__ import annotations

from typing import Any

import pytest

from kubewright.local.apiserver.crd.schema_rules import validate_schema

LIST_TYPE, KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
EMBEDDED = "x-kubernetes-embedded-resource"
PRESERVE = "x-kubernetes-preserve-unknown-fields"


def faults(schema: dict[str, Any], *, has_status: bool = False) -> dict[str, str]:
    causes = validate_schema(schema, "s", has_status=has_status)
    return {cause.field.removeprefix("s."): cause.message for cause in causes}


def of_property(schema: dict[str, Any]) -> dict[str, str]:
    found = faults({"type": "object", "properties": {"a": schema}})
    return {field.removeprefix("properties[a]."): message for field, message in found.items()}


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        ({}, "type", "Required value: must not be empty for specified object fields"),
        ({"type": "array"}, "items", "Required value: must be specified"),
        (
            {"type": "array", "items": {"description": "x"}},
            "items.type",
            "Required value: must not be empty for specified array items",
        ),
        (
            {
                "type": "object",
                "properties": {"b": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
            "additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "string", "anyOf": [{"description": "x"}]},
            "anyOf[0].description",
            "Forbidden: must be empty to be structural",
        ),
        ({"type": "string", "$ref": "#/x"}, "$ref", "Forbidden: $ref is not supported"),
        (
            {"type": "object", PRESERVE: False},
            PRESERVE,
            "Invalid value: false: must be true or undefined",
        ),
        (
            {"type": "array", LIST_TYPE: "map", "items": {"type": "object"}},
            KEYS,
            f"Required value: must not be empty if {LIST_TYPE} is map",
        ),
        (
            {
                "type": "array",
                LIST_TYPE: "map",
                KEYS: ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            },
            "items.properties[k].default",
            (
                f"Required value: this property is in {KEYS}, so it must have a default or be a "
                "required property"
            ),
        ),
        (
            {"type": "object", EMBEDDED: True},
            "properties",
            f"Required value: must not be empty if {EMBEDDED} is true without {PRESERVE}",
        ),
        (
            {"type": "integer", "default": "x"},
            "default",
            'Invalid value: "string":  in body must be of type integer: "string"',
        ),
        (
            {"type": "object", "default": {"x": 1}},
            "default",
            'Invalid value: {"x":1}: must not have unknown fields',
        ),
    ],
)
def test_names_place_and_reason(schema: dict[str, Any], field: str, message: str) -> None:
    assert of_property(schema) == {field: message}


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": "object", "additionalProperties": False},
        {PRESERVE: True},
        {"type": "string", "nullable": True, "default": None},
        {"type": "object", EMBEDDED: True, PRESERVE: True},
    ],
)
def test_accepts(schema: dict[str, Any]) -> None:
    assert of_property(schema) == {}


def test_root_must_be_an_object_with_plain_metadata() -> None:
    assert faults({"type": "string"}) == {
        "type": 'Invalid value: "string": must be object at the root'
    }
    labels = {"type": "object", "properties": {"labels": {"type": "object"}}}
    assert "must not specify anything other than name and generateName" in next(
        iter(faults({"type": "object", "properties": {"metadata": labels}}).values())
    )


def test_what_junctors_at_the_root_speak_of_must_be_declared() -> None:
    schema = {"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]}
    assert faults(schema) == {
        "properties[b]": "Required value: because it is defined in s.anyOf[0].properties[b]"
    }


def test_status_subresource_allows_no_junctors_at_the_root() -> None:
    schema = {
        "type": "object",
        "properties": {"b": {"type": "string"}},
        "anyOf": [{"required": ["b"]}],
    }
    assert faults(schema) == {}
    assert "fields are allowed at the root of the schema" in next(
        iter(faults(schema, has_status=True).values())
    )
