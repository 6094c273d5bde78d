"""Values read by their schema: what is wrong with them, and which fields they hold."""

from __future__ import annotations

from typing import Any

from kubewright.local.apiserver.apply.field_set import FieldSet, Tree, as_member
from kubewright.local.apiserver.apply.path_element import (
    PathElementError,
    display_element,
    field_element,
    item_element,
)
from kubewright.local.apiserver.schema.json_value import (
    GO_TYPES,
    format_go,
    format_go_syntax,
)
from kubewright.local.apiserver.schema.node import DEDUCED, SchemaNode

_SCALAR_TYPES: dict[str, tuple[type, ...]] = {
    "numeric": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "any": (int, float, str, bool),
}


def validate_value(value: Any, node: SchemaNode) -> list[str]:
    """Return what is wrong with a value that is to be applied: types, unknown fields, duplicates.

    The messages are those of structured-merge-diff, each with the path before it.
    """
    return [f"{path}: {text}" if path else text for path, text in _faults(value, node)]


def is_typed(value: Any, node: SchemaNode) -> bool:
    """Tell whether a stored value fits its schema; keys of list items may stand twice."""
    return all(text.startswith("duplicate entries") for _, text in _faults(value, node))


def _faults(value: Any, node: SchemaNode) -> list[tuple[str, str]]:
    if value is None or node.kind == "untyped":
        return []
    if node.kind == "object":
        if type(value) is not dict:
            return [("", f"expected map, got &{{{format_go(value)}}}")]
        return _map_faults(value, node)
    if node.kind == "array":
        if type(value) is not list:
            return [("", f"expected list, got &{{{format_go(value)}}}")]
        return _list_faults(value, node)
    return _scalar_faults(value, node)


def _map_faults(value: dict[str, Any], node: SchemaNode) -> list[tuple[str, str]]:
    faults: list[tuple[str, str]] = []
    fields, others = node.fields, node.values
    for name, part in value.items():
        child = fields.get(name, others)
        if child is None:
            # The real walk ends at the first undeclared field of an object.
            return [*faults, ("." + name, "field not declared in schema")]
        faults += [("." + name + path, text) for path, text in _faults(part, child)]
    return faults


def _list_faults(value: list[Any], node: SchemaNode) -> list[tuple[str, str]]:
    faults: list[tuple[str, str]] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if node.list_type != "atomic":
            try:
                element = item_element(item, node)
            except PathElementError as error:
                return [*faults, ("", f"element {index}: {error}")]
            place = display_element(element)
            if element in seen:
                faults.append(("", f"duplicate entries for key {place}"))
            seen.add(element)
        faults += [(place + path, text) for path, text in _faults(item, node.items)]
    return faults


def _scalar_faults(value: Any, node: SchemaNode) -> list[tuple[str, str]]:
    if isinstance(value, _SCALAR_TYPES[node.scalar]) and (
        node.scalar in ("boolean", "any") or not isinstance(value, bool)
    ):
        return []
    if node.scalar == "numeric":
        return [("", f"expected numeric (int or float), got {GO_TYPES[type(value)]}")]
    if node.scalar == "string":
        shown = format_go_syntax(value)
        return [("", f"expected string, got &value.valueUnstructured{{Value:{shown}}}")]
    what = "boolean" if node.scalar == "boolean" else "any scalar"
    return [("", f"expected {what}, got &{{{format_go(value)}}}")]


def build_field_set(value: Any, node: SchemaNode) -> FieldSet:
    """Return the set of the leaves, list items and free map keys that a value holds."""
    return FieldSet(_tree(value, node))


def _tree(value: Any, node: SchemaNode) -> Tree | None:
    kind = node.kind
    if kind == "scalar":
        return {}
    if kind == "object":
        if node.map_type == "atomic":
            return {}
        return _map_tree(value, node) if type(value) is dict else None
    if kind == "array":
        if node.list_type == "atomic":
            return {}
        return _list_tree(value, node) if type(value) is list else None
    if type(value) is dict:
        return _map_tree(value, node)
    return None if value is None else {}


def _map_tree(value: dict[str, Any], node: SchemaNode) -> Tree | None:
    tree: Tree = {}
    fields, others = node.fields, node.values
    for name, part in value.items():
        child = fields.get(name)
        if child is None:
            tree[field_element(name)] = as_member(_tree(part, others or DEDUCED))
            continue
        below = _tree(part, child)
        if below is None and (part is None or part == {}):
            below = {}
        if below is not None:
            tree[field_element(name)] = below
    return tree or None


def _list_tree(value: list[Any], node: SchemaNode) -> Tree | None:
    tree: Tree = {}
    items = node.items
    for item in value:
        try:
            element = item_element(item, node)
        except PathElementError:
            # Only a live object can hold such an item; no one can own it.
            continue
        # Items that share a key are owned as one, without what is below them.
        tree[element] = {} if element in tree else as_member(_tree(item, items))
    return tree or None
