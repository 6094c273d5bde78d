"""JSON values as decoded: copying, comparing, and printing them as Go prints them."""

from __future__ import annotations

from typing import Any

GO_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "nil",
}
"""The Go types of decoded JSON values, as messages name them."""


def copy_value(value: Any) -> Any:
    """Return a deep copy; several times faster than `copy.deepcopy`, which handles cycles."""
    kind = type(value)
    if kind is dict:
        return {
            key: copy_value(part) if type(part) in (dict, list) else part
            for key, part in value.items()
        }
    if kind is list:
        return [copy_value(item) if type(item) in (dict, list) else item for item in value]
    return value


def is_equal(left: Any, right: Any) -> bool:
    """Tell whether two JSON values are equal; `1` is not `true`, but `1.0` is `1`."""
    if left is right:
        return True
    if type(left) is not type(right):
        numbers = type(left) in (int, float) and type(right) in (int, float)
        return numbers and bool(left == right)
    if type(left) is dict:
        # Plain equality is much faster and decides nearly always.
        return left == right and all(is_equal(value, right[key]) for key, value in left.items())
    if type(left) is list:
        return left == right and all(map(is_equal, left, right))
    return bool(left == right)


def format_go(value: Any) -> str:
    """Write a value as Go's `%v` does: `map[a:1 b:[x y]]`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{format_go(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(format_go(item) for item in value) + "]"
    return "<nil>" if value is None else str(value)
