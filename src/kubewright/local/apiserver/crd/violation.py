"""What is wrong at one place of a custom object, in the words of the real API server.

The texts follow go-openapi's validation errors and `field.Error` of apimachinery.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from kubewright.api.errors import Cause
from kubewright.local.apiserver.schema.json_value import format_go_float, is_go_float

Path: TypeAlias = tuple[Any, ...]
"""A place in an object as a linked list: `()` is the root, `(parent, key or index)` a child.

A pair costs one small allocation for each visited field; the text is built only for an error.
"""

ROOT: Path = ()
NO_FIELD = "<nil>"  # how Go prints the path of an error that names no field


def path_steps(path: Path) -> list[str | int]:
    """Return the keys and indexes from the root to a place."""
    steps: list[str | int] = []
    while path:
        path, step = path
        steps.append(step)
    steps.reverse()
    return steps


def format_path(path: Path, base: str = "") -> str:
    """Write a place as messages do: `spec.list[2].name`."""
    text = base
    for step in path_steps(path):
        if type(step) is int:
            text += f"[{step}]"
        else:
            text = f"{text}.{step}" if text else str(step)
    return text


class Violation(msgspec.Struct, frozen=True):
    """One broken rule. `node` is the place whose schema has the rule, `field` the one it names.

    A rule such as `oneOf` names no field: `field` is None.
    """

    node: Path
    field: Path | None
    reason: str
    message: str

    def to_cause(self, base: str = "") -> Cause:
        """Return the cause of a Status; `base` is the field that the validated part stands in."""
        where = format_path(self.field, base) if self.field is not None else base
        return Cause(self.reason, self.message, where or NO_FIELD)


def format_value(value: Any) -> str:
    """Write a value as messages quote it: JSON, strings in double quotes, numbers as Go does."""
    if is_go_float(value):
        return format_go_float(float(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def invalid(node: Path, value: Any, detail: str) -> Violation:
    """Build `Invalid value: …`."""
    message = f"Invalid value: {format_value(value)}: {detail}"
    return Violation(node, node, "FieldValueInvalid", message)


def type_invalid(node: Path, value: Any, detail: str) -> Violation:
    """Build `Invalid value: …` for a value of the wrong type or format."""
    message = f"Invalid value: {format_value(value)}: {detail}"
    return Violation(node, node, "FieldValueTypeInvalid", message)


def unplaced(node: Path, detail: str) -> Violation:
    """Build the error of a rule that names no field."""
    return Violation(node, None, "FieldValueInvalid", f'Invalid value: "": {detail}')


def required(node: Path, name: str) -> Violation:
    """Build `Required value` for a missing property of a place."""
    return Violation(node, (node, name), "FieldValueRequired", "Required value")


def duplicate(node: Path, item: Path, value: Any) -> Violation:
    """Build `Duplicate value: …` for an item of a list."""
    return Violation(node, item, "FieldValueDuplicate", f"Duplicate value: {format_value(value)}")
