"""Validate values against a JSONSchemaProps, in go-openapi's order and words.

A schema is compiled once into closures; a valid value then costs a type check per field. Each
closure takes the value, its place and the list that collects violations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubewright.local.apiserver.crd.scalar_validation import (
    Schema,
    Validate,
    build_type_error,
    compile_enum,
    compile_format,
    compile_number,
    compile_string,
    is_whole,
    schema_types,
    type_name,
)
from kubewright.local.apiserver.crd.violation import (
    Path,
    Violation,
    format_path,
    invalid,
    required,
    type_invalid,
    unplaced,
)

__all__ = ["Schema", "Validate", "compile_validator"]


def compile_validator(schema: Schema) -> Validate:
    """Compile a schema, with all that is below it."""
    return _compile(schema).validate


class _Compiled(msgspec.Struct, frozen=True):
    """A compiled schema.

    `accepts` is the Python type that needs no further look at the type, None where there is none.
    `rest` checks a value of that type; None where nothing is left to check.
    """

    accepts: type | None
    rest: Validate | None
    validate: Validate


def _compile(schema: Schema) -> _Compiled:
    rest = _join([check for check in _ordered_checks(schema) if check is not None])
    accepts = _accepted_types(schema)
    check_type = _compile_type(schema) if accepts else None
    check_null = _compile_null(schema)

    def validate(value: Any, path: Path, out: list[Violation]) -> None:
        if value is None:
            check_null(value, path, out)
            return
        if check_type is not None and type(value) is not accepts:
            check_type(value, path, out)
        if rest is not None:
            rest(value, path, out)

    return _Compiled(accepts, rest, validate)


def _join(checks: list[Validate]) -> Validate | None:
    if len(checks) <= 1:
        return checks[0] if checks else None

    def check_all(value: Any, path: Path, out: list[Violation]) -> None:
        for check in checks:
            check(value, path, out)

    return check_all


def _ordered_checks(schema: Schema) -> list[Validate | None]:
    """Return the checks after the type, in the order in which the real server reports them."""
    return [
        *_compile_logic(schema),
        compile_string(schema),
        compile_format(schema),
        compile_number(schema),
        _compile_array(schema),
        compile_enum(schema),
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

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        found = type_name(value)
        if found in types:
            return
        if "number" in types and found == "integer":
            return
        if "integer" in types and found == "number" and is_whole(value):
            return
        out.append(build_type_error(schema, value, path))

    return check


def _compile_null(schema: Schema) -> Validate:
    """Check null: only its type and the enum look at it."""
    types = schema_types(schema)
    refused = bool(types) and not schema.get("nullable") and "null" not in types
    expected = ",".join(types)
    check_enum = compile_enum(schema)

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if refused:
            detail = f'{format_path(path)} in body must be of type {expected}: "null"'
            out.append(type_invalid(path, "null", detail))
        if check_enum is not None:
            check_enum(value, path, out)

    return check


def _compile_array(schema: Schema) -> Validate | None:
    items = schema.get("items")
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if not items and fewest is None and most is None:
        return None
    compiled = _compile(items) if items else None

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is not list:
            return
        if compiled is not None:
            accepts, rest, validate_item = compiled.accepts, compiled.rest, compiled.validate
            for index, item in enumerate(value):
                if type(item) is not accepts or accepts is None:
                    validate_item(item, (path, index), out)
                elif rest is not None:
                    rest(item, (path, index), out)
        if fewest is not None and len(value) < fewest:
            detail = f"{format_path(path)} in body should have at least {fewest} items"
            out.append(invalid(path, len(value), detail))
        if most is not None and len(value) > most:
            out.append(_too_many(path, len(value), most))

    return check


def _too_many(path: Path, count: int, most: int) -> Violation:
    message = f"Too many: {count}: must have at most {most} items"
    return Violation(path, path, "FieldValueTooMany", message)


def _compile_object(schema: Schema) -> Validate | None:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    needed = tuple(schema.get("required") or ())
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if not (properties or needed) and additional in (None, True) and fewest is most is None:
        return None
    children = {name: _compile(child) for name, child in properties.items()}
    get_child = {
        name: (child.accepts, child.rest, child.validate) for name, child in children.items()
    }.get
    closed = additional is False
    other = _compile(additional) if isinstance(additional, dict) else None

    def check(value: Any, path: Path, out: list[Violation]) -> None:
        if type(value) is not dict:
            return
        if fewest is not None and len(value) < fewest:
            detail = f"{format_path(path)} in body should have at least {fewest} properties"
            out.append(invalid(path, len(value), detail))
        if most is not None and len(value) > most:
            out.append(_too_many(path, len(value), most))
        for key, child in value.items():
            known = get_child(key)
            if known is not None:
                accepts, rest, validate_child = known
                # A place of the right type and without other rules needs no call.
                if type(child) is not accepts or accepts is None:
                    validate_child(child, (path, key), out)
                elif rest is not None:
                    rest(child, (path, key), out)
            elif other is not None:
                if type(child) is not other.accepts or other.rest is not None:
                    other.validate(child, (path, key), out)
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
