"""Rules of single values in a JSONSchemaProps: strings, numbers, enums."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kubewright.local.apiserver.crd.formats import CHECKED_FORMATS
from kubewright.local.apiserver.crd.pattern import compile_pattern
from kubewright.local.apiserver.crd.violation import (
    Path,
    Violation,
    format_path,
    format_value,
    invalid,
    type_invalid,
    unplaced,
)
from kubewright.local.apiserver.schema.json_value import format_go_float

Schema: TypeAlias = Mapping[str, Any]
Validate: TypeAlias = Callable[[Any, Path, list[Violation]], None]

_TYPE_NAMES: dict[type, str] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}
# What go-openapi calls the format of a decoded number.
_GO_FORMATS = {"integer": "int64", "number": "float64"}
_INT32, _INT64 = 2**31, 2**63


def type_name(value: Any) -> str:
    """Return the JSON Schema type of a value; an integer beyond 64 bits is a number, as in Go."""
    if type(value) is int and not -_INT64 <= value < _INT64:
        return "number"
    return _TYPE_NAMES[type(value)]


def build_type_error(schema: Schema, value: Any, path: Path) -> Violation:
    """Say that a value is of the wrong type.

    A schema with a format speaks of formats instead, unless the value is a string or a list.
    """
    expected, found = ",".join(schema_types(schema)), type_name(value)
    if schema.get("format") and type(value) not in (str, list):
        expected, found = schema["format"], _GO_FORMATS.get(found, "")
    detail = f'{format_path(path)} in body must be of type {expected}: "{found}"'
    return type_invalid(path, found, detail)


def schema_types(schema: Schema) -> tuple[str, ...]:
    """Return the types that a schema allows; empty for any."""
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    declared = schema.get("type")
    return (declared,) if declared else ()


def is_whole(value: float) -> bool:
    """Tell whether a JSON number counts as an integer: no fraction, and exact as a float."""
    return float(value).is_integer() and abs(value) < 2**53


def compile_string(schema: Schema) -> Validate | None:
    """Compile length and pattern."""
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern = schema.get("pattern")
    if longest is None and shortest is None and not pattern:
        return None
    search = compile_pattern(pattern).search if pattern else None

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is not str:
            return
        # The first error of a string hides the others.
        if longest is not None and len(value) > longest:
            message = f"Too long: may not be more than {longest} bytes"
            out.append(Violation(path, path, "FieldValueTooLong", message))
        elif shortest is not None and len(value) < shortest:
            detail = f"{format_path(path)} in body should be at least {shortest} chars long"
            out.append(invalid(path, value, detail))
        elif search is not None and search(value) is None:
            out.append(
                invalid(path, value, f"{format_path(path)} in body should match '{pattern}'")
            )

    return check


def compile_format(schema: Schema) -> Validate | None:
    """Compile the format of strings; None where it is not checked."""
    name = schema.get("format") or ""
    accepts = CHECKED_FORMATS.get(name.replace("_", "-")) or CHECKED_FORMATS.get(
        name.replace("-", "")
    )
    if accepts is None:
        return None

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is str and not accepts(value):
            detail = f"{format_path(path)} in body must be of type {name}: {format_value(value)}"
            out.append(type_invalid(path, value, detail))

    return check


def compile_number(schema: Schema) -> Validate | None:
    """Compile bounds and width of numbers."""
    limits = _compile_limits(schema)
    in_range = _compile_range(schema)
    if in_range is None and not limits:
        return None
    low, high = _plain_bounds(schema)

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is int:
            if low <= value <= high:
                return
        elif type(value) is not float:
            return
        if in_range is not None:
            in_range(value, path, out)
        for limit in limits:
            limit(value, path, out)

    return check


def _plain_bounds(schema: Schema) -> tuple[int, int]:
    """Return between which integers nothing can be wrong; an empty range where that is unclear."""
    if schema.get("multipleOf") is not None:
        return (1, 0)
    bound = _INT32 if schema.get("format") == "int32" else _INT64
    low, high = int(schema.get("minimum", -bound)), int(schema.get("maximum", bound - 1))
    low, high = (
        low + bool(schema.get("exclusiveMinimum")),
        high - bool(schema.get("exclusiveMaximum")),
    )
    return max(low, -bound), min(high, bound - 1)


def _compile_range(schema: Schema) -> Validate | None:
    """Check that an integer fits its width."""
    if schema.get("x-kubernetes-int-or-string"):
        return _compile_int64(schema)
    if schema.get("type") != "integer":
        return None
    width = schema.get("format") or ""
    bound = _INT32 if width == "int32" else _INT64
    what = f"with format {width}" if width else "(default format)"

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if -bound <= value < bound and (type(value) is int or is_whole(value)):
            return
        where = format_path(path)
        if type(value) is int and not -_INT64 <= value < _INT64:
            # Go holds such a number as a float; the quick type check let it through.
            out.append(build_type_error(schema, value, path))
        out.append(unplaced(path, f"Checked value must be of type integer {what} in {where}"))

    return check


def _compile_int64(schema: Schema) -> Validate:
    """Refuse an integer beyond 64 bits where a string may stand as well; it is a float in Go."""

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is int and not -_INT64 <= value < _INT64:
            out.append(build_type_error(schema, value, path))

    return check


def _compile_limits(schema: Schema) -> list[Validate]:
    limits: list[Validate] = []
    if (factor := schema.get("multipleOf")) is not None:
        limits.append(_limit(_is_multiple, factor, "a multiple of"))
    if (maximum := schema.get("maximum")) is not None:
        if schema.get("exclusiveMaximum"):
            limits.append(_limit(operator.lt, maximum, "less than"))
        else:
            limits.append(_limit(operator.le, maximum, "less than or equal to"))
    if (minimum := schema.get("minimum")) is not None:
        if schema.get("exclusiveMinimum"):
            limits.append(_limit(operator.gt, minimum, "greater than"))
        else:
            limits.append(_limit(operator.ge, minimum, "greater than or equal to"))
    return limits


def _limit(holds: Callable[[Any, Any], bool], bound: float, should_be: str) -> Validate:
    # Integers are compared as integers: a fraction of the bound is cut off, as Go does it.
    whole = int(bound) or (bound if holds is _is_multiple else 0)

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        limit = whole if type(value) is int else bound
        if not holds(value, limit):
            # Go prints what it compares with: an integer, or a float.
            shown = str(limit) if type(value) is int else format_go_float(float(limit))
            detail = f"{format_path(path)} in body should be {should_be} {shown}"
            out.append(invalid(path, value, detail))

    return check


def _is_multiple(value: float, factor: float) -> bool:
    if type(value) is int and type(factor) is int:
        return value % factor == 0
    return float(value / factor).is_integer()


def compile_enum(schema: Schema) -> Validate | None:
    """Compile the values that are allowed."""
    allowed = schema.get("enum")
    if not allowed:
        return None
    texts = [item if isinstance(item, str) else format_value(item) for item in allowed]
    supported = ", ".join(format_value(text) for text in texts)
    words = frozenset(item for item in allowed if isinstance(item, str))

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is str and value in words:
            return
        # Null is none of them, even where it is listed.
        for item in allowed if value is not None else ():
            # True == 1 in Python, not in JSON.
            if item == value and (type(item) is bool) == (type(value) is bool):
                return
            # Go converts before it compares: a fraction is cut off.
            if type(item) is int and type(value) is float and item == int(value):
                return
        message = f"Unsupported value: {format_value(value)}: supported values: {supported}"
        out.append(Violation(path, path, "FieldValueNotSupported", message))

    return check
