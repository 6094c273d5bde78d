import datetime as dt
import enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from kubewright.api.errors import SchemaError
from kubewright.api.resource import Object
from kubewright.api.structural_schema import build_structural_schema


def build(model: type[BaseModel]) -> Object:
    return build_structural_schema(model.model_json_schema(by_alias=True), "spec")


def field(annotation: Any, **extra: Any) -> Object:
    model: Any = type("Model", (BaseModel,), {"__annotations__": {"f": annotation}, **extra})
    result: Object = build(model)["properties"]["f"]
    return result


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Tree(BaseModel):
    children: list["Tree"] = []


class Empty(BaseModel):
    pass


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str | None, {"type": "string", "nullable": True}),
        (int | str, {"x-kubernetes-int-or-string": True}),
        (int | str | None, {"x-kubernetes-int-or-string": True, "nullable": True}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (
            set[str],
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.timedelta, {"type": "string"}),
        (
            tuple[int, int],
            {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        ),
        (Empty, {"type": "object", "properties": {}}),
        (int | float, {"type": "number"}),
        (list[Any], {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}),
    ],
)
def test_python_types_have_their_structural_form(annotation: Any, expected: Object) -> None:
    built = field(annotation)
    if annotation is Empty:
        built.setdefault("properties", {})

    assert built == expected


def test_exclusive_bounds_become_flags() -> None:
    assert field(int, f=Field(gt=0, lt=10)) == {
        "type": "integer",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 10,
        "exclusiveMaximum": True,
    }


def test_tagged_union_merges_its_models_and_keeps_them_apart() -> None:
    built = field(Cat | Dog)

    assert built["properties"]["kind"] == {"type": "string", "enum": ["cat", "dog"]}
    assert set(built["properties"]) == {"kind", "lives", "tricks"}
    assert built["required"] == ["kind"]
    assert [branch["properties"]["kind"]["enum"] for branch in built["oneOf"]] == [["cat"], ["dog"]]
    assert all("type" not in branch for branch in built["oneOf"])


def test_recursive_model_stays_open_at_its_inner_turn() -> None:
    inner = build(Tree)["properties"]["children"]["items"]

    assert inner == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_nothing_that_a_crd_refuses_is_left() -> None:
    class Everything(BaseModel):
        a: Cat | Dog | None = None
        b: dict[str, list[Tree]] = {}
        c: tuple[str, ...] = ()
        d: Color | None = Color.RED

    text = str(build(Everything))

    for word in ("$ref", "$defs", "'title'", "prefixItems", "'const'", "discriminator", "'null'"):
        assert word not in text


class Bird(BaseModel):
    kind: Literal["bird"]
    lives: str


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        (str | list[str], "spec.f: a union of array, string"),
        (tuple[int, str], "spec.f: a tuple of different types"),
        (Literal["a", 1], "spec.f: values of several types"),
        (Cat | Bird, "spec.f.lives: two models of the union"),
        (None, "spec.f: a field that can only be None"),
        (dict[Literal["a", "b"], int], "spec.f: a dict with constrained keys"),
    ],
)
def test_what_has_no_structural_form_is_refused_by_its_path(annotation: Any, hint: str) -> None:
    with pytest.raises(SchemaError, match=hint.replace(".", r"\.")):
        field(annotation)


@pytest.mark.parametrize("pattern", [r"^(?!x)", r"(a)\1", r"(?<=a)b"])
def test_patterns_beyond_re2_are_refused(pattern: str) -> None:
    schema = {"type": "object", "properties": {"f": {"type": "string", "pattern": pattern}}}

    with pytest.raises(SchemaError, match="RE2"):
        build_structural_schema(schema, "spec")
