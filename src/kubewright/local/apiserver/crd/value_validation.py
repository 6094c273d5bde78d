"""Validate values against a JSONSchemaProps, in go-openapi's order and words.

A schema is compiled once into closures; a valid value then costs a type check per field. Each
closure takes the value, its place and the list that collects violations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kubewright.local.apiserver.crd.formats import CHECKED_FORMATS
from kubewright.local.apiserver.crd.pattern import compile_pattern
from kubewright.local.apiserver.crd.violation import (
    Path,
    Violation,
    format_number,
    format_path,
    format_value,
    invalid,
    required,
    type_invalid,
    unplaced,
)

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
_INT32, _INT64 = 2**31, 2**63


def type_name(value: Any) -> str:
    """Return the JSON Schema type of a value; an integer beyond 64 bits is a number, as in Go."""
    if type(value) is int and not -_INT64 <= value < _INT64:
        return "number"
    return _TYPE_NAMES[type(value)]


def schema_types(schema: Schema) -> tuple[str, ...]:
    """Return the types that a schema allows; empty for any."""
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    declared = schema.get("type")
    return (declared,) if declared else ()


def compile_validator(schema: Schema) -> Validate:
    """Compile a schema, with all that is below it."""
    checks = [check for check in _ordered_checks(schema) if check is not None]
    accepts = _accepted_types(schema)
    check_type = _compile_type(schema)
    check_null = _compile_null(schema)
    if accepts is None:
        # No type is demanded: each check looks at the values that it is about.
        def validate_any(value: Any, path: Path, out: list[Violation]) -> None:
            if value is None:
                check_null(value, path, out)
                return
            for check in checks:
                check(value, path, out)

        return validate_any

    def validate(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is not accepts:
            if value is None:
                check_null(value, path, out)
                return
            check_type(value, path, out)
        for check in checks:
            check(value, path, out)

    if len(checks) == 1:
        only = checks[0]

        def validate_one(value: Any, path: Path, out: list[Violation]) -> None:
            if type(value) is not accepts:
                validate(value, path, out)
            else:
                only(value, path, out)

        return validate_one
    return validate


def _ordered_checks(schema: Schema) -> list[Validate | None]:
    """Return the checks after the type, in the order in which the real server reports them."""
    return [
        *_compile_logic(schema),
        _compile_string(schema),
        _compile_format(schema),
        _compile_number(schema),
        _compile_array(schema),
        _compile_enum(schema),
        _compile_object(schema),
    ]


_PYTHON_TYPES: dict[str, type] = {
    "boolean": bool,
    "integer": int,
    "number": float,
    "object": dict,
    "array": list,
    "string": str,
}


def _accepted_types(schema: Schema) -> type | None:
    """Return the Python type that passes the type check at once; None where no type is asked."""
    types = schema_types(schema)
    return _PYTHON_TYPES.get(types[0], dict) if types else None


def _compile_type(schema: Schema) -> Validate:
    types = schema_types(schema)
    expected = ",".join(types)

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        found = type_name(value)
        if found in types:
            return
        if "number" in types and found == "integer":
            return
        if "integer" in types and found == "number" and _is_whole(value):
            return
        where = format_path(path)
        out.append(
            type_invalid(path, found, f'{where} in body must be of type {expected}: "{found}"')
        )

    return check


def _is_whole(value: float) -> bool:
    """Tell whether a JSON number counts as an integer: no fraction, and exact as a float."""
    return float(value).is_integer() and abs(value) < 2**53


def _compile_null(schema: Schema) -> Validate:
    """Check null: only its type and the enum look at it."""
    types = schema_types(schema)
    refused = bool(types) and not schema.get("nullable") and "null" not in types
    expected = ",".join(types)
    check_enum = _compile_enum(schema)

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if refused:
            detail = f'{format_path(path)} in body must be of type {expected}: "null"'
            out.append(type_invalid(path, "null", detail))
        if check_enum is not None:
            check_enum(value, path, out)

    return check


def _compile_string(schema: Schema) -> Validate | None:
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


def _compile_format(schema: Schema) -> Validate | None:
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


def _compile_number(schema: Schema) -> Validate | None:
    limits = _compile_limits(schema)
    in_range = _compile_range(schema)
    if in_range is None and not limits:
        return None

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is int or type(value) is float:
            if in_range is not None:
                in_range(value, path, out)
            for limit in limits:
                limit(value, path, out)

    return check


def _compile_range(schema: Schema) -> Validate | None:
    """Check that an integer fits its width."""
    if schema.get("x-kubernetes-int-or-string"):
        return _check_int64
    if schema.get("type") != "integer":
        return None
    width = schema.get("format") or ""
    bound = _INT32 if width == "int32" else _INT64
    what = f"with format {width}" if width else "(default format)"

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if -bound <= value < bound and (type(value) is int or _is_whole(value)):
            return
        where = format_path(path)
        if type(value) is int and not -_INT64 <= value < _INT64:
            # Go holds such a number as a float; the quick type check let it through.
            detail = f'{where} in body must be of type integer: "number"'
            out.append(type_invalid(path, "number", detail))
        out.append(unplaced(path, f"Checked value must be of type integer {what} in {where}"))

    return check


def _check_int64(value: Any, path: Path, out: list[Violation]) -> None:
    """Refuse an integer beyond 64 bits where a string may stand as well; it is a float in Go."""
    if type(value) is int and not -_INT64 <= value < _INT64:
        detail = f'{format_path(path)} in body must be of type integer,string: "number"'
        out.append(type_invalid(path, "number", detail))


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
            detail = f"{format_path(path)} in body should be {should_be} {format_number(limit)}"
            out.append(invalid(path, value, detail))

    return check


def _is_multiple(value: float, factor: float) -> bool:
    if type(value) is int and type(factor) is int:
        return value % factor == 0
    return float(value / factor).is_integer()


def _compile_array(schema: Schema) -> Validate | None:
    items = schema.get("items")
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if not items and fewest is None and most is None:
        return None
    validate_item = compile_validator(items) if items else None

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is not list:
            return
        if validate_item is not None:
            for index, item in enumerate(value):
                validate_item(item, (path, index), out)
        if fewest is not None and len(value) < fewest:
            detail = f"{format_path(path)} in body should have at least {fewest} items"
            out.append(invalid(path, len(value), detail))
        if most is not None and len(value) > most:
            out.append(_too_many(path, len(value), most))

    return check


def _too_many(path: Path, count: int, most: int) -> Violation:
    message = f"Too many: {count}: must have at most {most} items"
    return Violation(path, path, "FieldValueTooMany", message)


def _compile_enum(schema: Schema) -> Validate | None:
    allowed = schema.get("enum")
    if not allowed:
        return None
    texts = [item if isinstance(item, str) else format_value(item) for item in allowed]
    supported = ", ".join(format_value(text) for text in texts)

    def check(value: Any, path: Path, out: list[Violation]) -> None:
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


def _compile_object(schema: Schema) -> Validate | None:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    needed = tuple(schema.get("required") or ())
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if not (properties or needed) and additional in (None, True) and fewest is most is None:
        return None
    children = {name: compile_validator(child) for name, child in properties.items()}
    # A property with no rules at all needs no visit.
    get_child = children.get
    closed = additional is False
    validate_other = compile_validator(additional) if isinstance(additional, dict) else None

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is not dict:
            return
        if fewest is not None and len(value) < fewest:
            detail = f"{format_path(path)} in body should have at least {fewest} properties"
            out.append(invalid(path, len(value), detail))
        if most is not None and len(value) > most:
            out.append(_too_many(path, len(value), most))
        for key, child in value.items():
            validate_child = get_child(key)
            if validate_child is not None:
                validate_child(child, (path, key), out)
            elif validate_other is not None:
                validate_other(child, (path, key), out)
            elif closed:
                where = format_path((path, key))
                out.append(invalid(path, key, f"{where} in body is a forbidden property"))
        out.extend([required(path, name) for name in needed if name not in value])

    return check


def _compile_logic(schema: Schema) -> list[Validate]:
    """Compile anyOf, oneOf, allOf and not."""
    checks: list[Validate] = []
    if branches := schema.get("anyOf"):
        checks.append(_any_of(_Branches(branches)))
    if branches := schema.get("oneOf"):
        checks.append(_one_of(_Branches(branches)))
    if branches := schema.get("allOf"):
        checks.append(_all_of([compile_validator(branch) for branch in branches]))
    if (negated := schema.get("not")) is not None:
        checks.append(_not(compile_validator(negated)))
    return checks


class _Branches:
    """The branches of a junctor, and what a value breaks of them."""

    __slots__ = ("_schemas", "validators")

    def __init__(self, schemas: list[Schema]) -> None:
        self._schemas = schemas
        self.validators = [compile_validator(schema) for schema in schemas]

    def best(self, failures: list[list[Violation]], value: Any) -> list[Violation]:
        """Return the failures of the branch that speaks of most of the value."""
        reached = [_reach(schema, value) for schema in self._schemas]
        return failures[reached.index(max(reached))]


def _reach(schema: Schema, value: Any) -> int:
    """Count the places of a value that a schema has a word on."""
    count = 1
    if type(value) is dict:
        properties = schema.get("properties") or {}
        count += sum(_reach(properties[key], value[key]) for key in properties if key in value)
    elif type(value) is list and isinstance(schema.get("items"), Mapping):
        count += sum(_reach(schema["items"], item) for item in value)
    return count


def _any_of(branches: _Branches) -> Validate:
    def check(value: Any, path: Path, out: list[Violation]) -> None:
        failures: list[list[Violation]] = []
        for validate in branches.validators:
            found: list[Violation] = []
            validate(value, path, found)
            if not found:
                return
            failures.append(found)
        where = format_path(path)
        out.append(unplaced(path, f'"{where}" must validate at least one schema (anyOf)'))
        out.extend(branches.best(failures, value))

    return check


def _one_of(branches: _Branches) -> Validate:
    def check(value: Any, path: Path, out: list[Violation]) -> None:
        failures: list[list[Violation]] = []
        for validate in branches.validators:
            failures.append([])
            validate(value, path, failures[-1])
        valid = sum(not found for found in failures)
        if valid == 1:
            return
        told = f"Found {valid} valid alternatives" if valid else "Found none valid"
        rule = f'"{format_path(path)}" must validate one and only one schema (oneOf). {told}'
        out.append(unplaced(path, rule))
        if not valid:
            out.extend(branches.best(failures, value))

    return check


def _all_of(branches: list[Validate]) -> Validate:
    def check(value: Any, path: Path, out: list[Violation]) -> None:
        valid = 0
        for branch in branches:
            before = len(out)
            branch(value, path, out)
            valid += len(out) == before
        if valid != len(branches):
            none = "" if valid else ". None validated"
            where = format_path(path)
            out.append(unplaced(path, f'"{where}" must validate all the schemas (allOf){none}'))

    return check


def _not(branch: Validate) -> Validate:
    def check(value: Any, path: Path, out: list[Violation]) -> None:
        found: list[Violation] = []
        branch(value, path, found)
        if not found:
            where = format_path(path)
            out.append(unplaced(path, f'"{where}" must not validate the schema (not)'))

    return check
