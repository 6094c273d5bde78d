from __future__ import annotations

from typing import Any

import pytest

from kubewright.local.apiserver.crd.structural_schema import StructuralSchema


def messages(schema: dict[str, Any], value: Any) -> list[tuple[str, str, str]]:
    root = {"type": "object", "properties": {"v": schema}}
    causes = [violation.to_cause() for violation in StructuralSchema(root).validate({"v": value})]
    return [(cause.field, cause.reason, cause.message) for cause in causes]


@pytest.mark.parametrize(
    ("schema", "value", "reason", "message"),
    [
        (
            {"type": "string"},
            1,
            "FieldValueTypeInvalid",
            'Invalid value: "integer": v in body must be of type string: "integer"',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            "FieldValueTypeInvalid",
            'Invalid value: "boolean": v in body must be of type integer,string: "boolean"',
        ),
        (
            {"type": "integer", "minimum": 3},
            2,
            "FieldValueInvalid",
            "Invalid value: 2: v in body should be greater than or equal to 3",
        ),
        (
            {"type": "number", "maximum": 1.5, "exclusiveMaximum": True},
            1.5,
            "FieldValueInvalid",
            "Invalid value: 1.5: v in body should be less than 1.5",
        ),
        (
            {"type": "integer", "multipleOf": 5},
            7,
            "FieldValueInvalid",
            "Invalid value: 7: v in body should be a multiple of 5",
        ),
        (
            {"type": "string", "maxLength": 2},
            "äöü",
            "FieldValueTooLong",
            "Too long: may not be more than 2 bytes",
        ),
        (
            {"type": "string", "minLength": 2, "pattern": "^x"},
            "a",
            "FieldValueInvalid",
            'Invalid value: "a": v in body should be at least 2 chars long',
        ),
        (
            {"type": "string", "pattern": r"^\d$"},
            "a",
            "FieldValueInvalid",
            r"""Invalid value: "a": v in body should match '^\d$'""",
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            3,
            "FieldValueNotSupported",
            'Unsupported value: 3: supported values: "1", "2"',
        ),
        (
            {"type": "string", "format": "ipv4"},
            "x",
            "FieldValueTypeInvalid",
            'Invalid value: "x": v in body must be of type ipv4: "x"',
        ),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            "FieldValueTooMany",
            "Too many: 2: must have at most 1 items",
        ),
        (
            {"type": "object", "minProperties": 1, "additionalProperties": True},
            {},
            "FieldValueInvalid",
            "Invalid value: 0: v in body should have at least 1 properties",
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"k": 1},
            "FieldValueInvalid",
            'Invalid value: "k": v.k in body is a forbidden property',
        ),
    ],
)
def test_words_one_fault_as_the_real_server_does(
    schema: dict[str, Any], value: Any, reason: str, message: str
) -> None:
    assert messages(schema, value) == [("v", reason, message)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "number"}, 1),
        ({"type": "string", "nullable": True}, None),
        ({}, None),
        ({"type": "string", "format": "made-up"}, "anything"),
        # Bounds lose their fraction when an integer is compared.
        ({"type": "number", "minimum": 0.1}, 0),
        ({"type": "string", "maxLength": 4}, "äöüß"),
        ({"type": "object", "additionalProperties": True}, {"k": None}),
    ],
)
def test_accepts(schema: dict[str, Any], value: Any) -> None:
    assert messages(schema, value) == []


def test_fraction_in_an_integer_is_told_twice() -> None:
    found = messages({"type": "integer"}, 1.5)
    assert [field for field, _, _ in found] == ["v", "<nil>"]
    assert found[1][2] == (
        'Invalid value: "": Checked value must be of type integer (default format) in v'
    )


def test_integers_beyond_64_bits_are_numbers() -> None:
    assert messages({"type": "integer"}, 2**64)[0][2] == (
        'Invalid value: "number": v in body must be of type integer: "number"'
    )


def test_null_is_in_no_enum() -> None:
    schema = {"type": "string", "nullable": True, "enum": ["a", None]}
    assert messages(schema, None)[0][1] == "FieldValueNotSupported"


def test_errors_in_items_and_map_values_carry_index_and_key() -> None:
    schema = {
        "type": "object",
        "required": ["must"],
        "properties": {"l": {"type": "array", "items": {"type": "object", "required": ["k"]}}},
        "additionalProperties": {"type": "integer"},
    }
    found = messages(schema, {"l": [{"k": 1}, {}], "b.c/d": "x"})
    assert [field for field, _, _ in found] == ["v.l[1].k", "v.b.c/d", "v.must"]


def test_one_of_reports_the_branch_that_speaks_of_most_of_the_value() -> None:
    schema = {
        "type": "object",
        "oneOf": [
            {"required": ["a"]},
            {"required": ["b"], "properties": {"b": {"minimum": 3}}},
        ],
    }
    assert [field for field, _, _ in messages(schema, {"b": 1})] == ["<nil>", "v.b"]
    assert "Found 2 valid alternatives" in messages(schema, {"a": 1, "b": 5})[0][2]
    assert messages(schema, {"b": 5}) == []


def test_all_of_any_of_and_not_name_no_field() -> None:
    schema = {
        "type": "integer",
        "allOf": [{"minimum": 1}, {"maximum": 5}],
        "anyOf": [{"maximum": 3}, {"minimum": 5}],
        "not": {"enum": [2]},
    }
    texts = [message for field, _, message in messages(schema, 9) if field == "<nil>"]
    assert texts == ['Invalid value: "": "v" must validate all the schemas (allOf)']
    assert messages(schema, 2)[0][2] == 'Invalid value: "": "v" must not validate the schema (not)'
    assert messages(schema, 4)[0][2] == (
        'Invalid value: "": "v" must validate at least one schema (anyOf)'
    )
