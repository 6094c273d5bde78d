"""The values of a desired child: copied as JSON will have them, or refused by path."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

from kubewright.api.quantity import Quantity

_LEAST, _GREATEST = -(1 << 63), (1 << 64) - 1


class UnfitValue(ValueError):
    """A value that JSON, or Kubernetes' use of it, cannot hold."""


def copy_value(value: Any) -> Any:
    """Copy a value without the fields that are None: to apply null is not to apply the field.

    Tuples become lists, members of enums their values and quantities their text. What is copied
    shares nothing with the original.

    Raises:
        UnfitValue: it holds something that is no JSON; `find_fault` says where.
    """
    kind = type(value)
    if kind is str or kind is bool:
        return value
    if kind is dict:
        return {
            # Most values are texts: they are not worth a call.
            (key if type(key) is str else _copy_key(key)): (
                inner if type(inner) is str else copy_value(inner)
            )
            for key, inner in value.items()
            if inner is not None
        }
    if kind is list or kind is tuple:
        return [copy_value(inner) for inner in value]
    return _copy_other(value)


def _copy_key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str(key)
    raise UnfitValue(f"the key {key!r} is no text: write it as {str(key)!r}")


def _copy_other(value: Any) -> Any:
    match value:
        case enum.Enum():
            return copy_value(value.value)
        case str():
            return str(value)
        case bool():
            return bool(value)
        case int() if _LEAST <= value <= _GREATEST:
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case int() | float():
            raise UnfitValue(f"{value} is a number that JSON cannot hold")
        case Quantity():
            return str(value)
        case Mapping():
            return copy_value(dict(value))
        case None:
            return None
    raise UnfitValue(f"a {type(value).__name__} is no JSON: {_advice(value)}")


def _advice(value: Any) -> str:
    if hasattr(value, "model_dump"):
        return "write .model_dump(mode='json', by_alias=True, exclude_none=True)"
    if isinstance(value, set | frozenset):
        return "write sorted(…), since its order changes by itself"
    if isinstance(value, bytes | bytearray):
        return "decode it, or encode it as base64 text"
    if hasattr(value, "isoformat"):
        return "write it as text; format_time writes Kubernetes' times"
    if hasattr(value, "__await__"):
        return "it was not awaited, and a pure function cannot do that"
    return "write it as text, number, list or dict"


def find_fault(value: Any, path: str = "") -> str:
    """Return the path of the first part that `copy_value` refuses, with the reason."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        items = [(f"{path}.{key}" if path else str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple):
        items = [(f"{path}[{index}]", inner) for index, inner in enumerate(value)]
    for inner_path, inner in items:
        try:
            copy_value(inner)
        except UnfitValue:
            return find_fault(inner, inner_path)
    try:
        copy_value(value)
    except UnfitValue as error:
        return f"{path}: {error}" if path else str(error)
    return ""


def find_surrogate(value: Any, path: str = "") -> str:
    """Return the path of the first text that UTF-8 cannot hold, as `os.fsdecode` makes them.

    It is looked for when an object could not be encoded: to look at each text would cost more.
    """
    if isinstance(value, str):
        return path if any("\ud800" <= letter <= "\udfff" for letter in value) else ""
    items: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        for key, inner in value.items():
            inner_path = f"{path}.{key}" if path else str(key)
            if find_surrogate(key, "key"):
                return inner_path.encode("utf-8", "backslashreplace").decode()
            items.append((inner_path, inner))
    elif isinstance(value, list | tuple):
        items = [(f"{path}[{index}]", inner) for index, inner in enumerate(value)]
    return next((found for place, inner in items if (found := find_surrogate(inner, place))), "")
