"""Path elements: one step of a path to a field, in the text that managedFields writes.

`f:name` is a field or map key, `k:{"name":"c"}` an item of a list with keys, `v:"x"` an item of a
set, `i:0` an index. The text is canonical: equal elements are equal strings.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import msgspec

from kubewright.local.apiserver.schema.node import SchemaNode

# Go's JSON writer escapes what could end a script element in HTML.
_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_ORDER = {"f": 0, "k": 1, "v": 2, "i": 3}


class PathElementError(ValueError):
    """A text is not a path element, or a list item has no place in its list."""


def field_element(name: str) -> str:
    """Return the element of a field or map key."""
    return "f:" + name


def item_element(item: Any, node: SchemaNode) -> str:
    """Return the element of an item of an associative list.

    Key fields that are missing take their default from the schema; without one they are left out.

    Raises:
        PathElementError: the item cannot be told from others; the message is SMD's.
    """
    keys = node.list_map_keys
    if not keys:
        return _set_element(item)
    if type(item) is not dict:
        what = "a null element" if item is None else "non-map elements"
        raise PathElementError(f"associative list with keys may not have {what}")
    if len(keys) == 1:
        value = item.get(keys[0])
        if type(value) is str:
            return _text_key(keys[0], value)
    return _general_key(item, node)


def _general_key(item: dict[str, Any], node: SchemaNode) -> str:
    parts: dict[str, Any] = {}
    for key in node.list_map_keys:
        if key in item:
            parts[key] = item[key]
        else:
            declared = node.items.fields.get(key)
            if declared is not None and declared.default is not None:
                parts[key] = declared.default
    if not parts:
        names = " ".join(f'"{key}"' for key in node.list_map_keys)
        raise PathElementError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(parts)


def key_element(parts: dict[str, Any]) -> str:
    """Return the element of the item that has these key fields."""
    return "k:" + _canonical(parts)


def value_element(value: Any) -> str:
    """Return the element of an item of a set."""
    return "v:" + _canonical(value)


@lru_cache(maxsize=4096)
def _text_key(key: str, value: str) -> str:
    return key_element({key: value})


@lru_cache(maxsize=4096)
def _text_value(value: str) -> str:
    return value_element(value)


def _set_element(item: Any) -> str:
    if type(item) is str:
        return _text_value(item)
    if isinstance(item, dict):
        raise PathElementError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise PathElementError("not supported: associative list with lists as elements")
    if item is None:
        raise PathElementError(
            "associative list without keys has an element that's an explicit null"
        )
    return value_element(item)


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        value = {key: _whole(part) for key, part in value.items()}
    return msgspec.json.encode(_whole(value), order="sorted").decode().translate(_HTML)


def _whole(value: Any) -> Any:
    # 80.0 and 80 are one number, and Go writes it without the point.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_known_element(text: str) -> bool:
    """Tell whether a text is an element of a kind that this version knows, well formed or not.

    Raises:
        PathElementError: it does not even name a kind.
    """
    if text[1:2] != ":":
        raise PathElementError(f"not a path element: {text!r}")
    return text[0] in _ORDER


@lru_cache(maxsize=4096)
def parse_element(text: str) -> str:
    """Return the canonical form of an element's text.

    Raises:
        PathElementError: it is none.
    """
    if not is_known_element(text):
        raise PathElementError(f"not a path element: {text!r}")
    kind, rest = text[0], text[2:]
    if kind == "f":
        return text
    try:
        if kind == "i":
            return f"i:{int(rest)}"
        value = json.loads(rest)
    except ValueError as error:
        raise PathElementError(f"not a path element: {text!r}") from error
    if kind == "k":
        if not isinstance(value, dict):
            raise PathElementError(f"not a path element: {text!r}")
        return key_element(value)
    return value_element(value)


@lru_cache(maxsize=4096)
def display_element(element: str) -> str:
    """Write an element as messages do: `.name`, `[port=80,protocol="TCP"]`, `[="x"]`, `[0]`."""
    kind, rest = element[:1], element[2:]
    if kind == "f":
        return "." + rest
    if kind == "k":
        parts = json.loads(rest)
        return "[" + ",".join(f"{key}={_quote(parts[key])}" for key in sorted(parts)) + "]"
    if kind == "v":
        return f"[={_quote(json.loads(rest))}]"
    return f"[{rest}]"


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=4096)
def _position(element: str) -> tuple[int, Any]:
    kind, rest = element[:1], element[2:]
    if kind == "f":
        return 0, rest
    if kind == "k":
        parts = json.loads(rest)
        return 1, [(key, _rank(parts[key])) for key in sorted(parts)]
    if kind == "v":
        return 2, _rank(json.loads(rest))
    return 3, int(rest)


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 3, value
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, str):
        return 2, value
    return 0, str(value)


def sort_elements(elements: list[str]) -> list[str]:
    """Return elements in the order in which managedFields writes them."""
    elements = sorted(elements)
    # Fields sort as their text does; other elements follow them and are rarer.
    if elements and elements[-1][0] > "f":
        elements.sort(key=_position)
    return elements
