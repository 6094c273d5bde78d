"""Merging an applied configuration into the live object, and taking fields away again."""

from __future__ import annotations

import operator
from typing import Any

from kubewright.local.apiserver.apply.field_set import FieldSet, Tree, is_member
from kubewright.local.apiserver.apply.path_element import (
    PathElementError,
    field_element,
    item_element,
)
from kubewright.local.apiserver.schema.json_value import is_equal
from kubewright.local.apiserver.schema.node import DEDUCED, SchemaNode

_MAP_OR_NULL = (dict, type(None))


def merge_values(live: Any, config: Any, node: SchemaNode) -> Any:
    """Return the live value with the configuration laid over it.

    Neither is changed; the result shares their parts, and is the live value itself where the
    configuration changes nothing. Lists with keys and sets merge by item: an item that only the
    live list has keeps its place, shared items follow the configuration's order.
    """
    kind = node.kind
    if kind == "object":
        if node.map_type != "atomic" and (live or config):
            return _merge_maps(live, config, node)
    elif kind == "array":
        if node.list_type != "atomic" and (live or config):
            return _merge_lists(live, config, node)
    elif kind == "untyped" and live and type(live) is dict and type(config) in _MAP_OR_NULL:
        return _merge_maps(live, config, node)
    return live if is_equal(live, config) else config


def _merge_maps(live: Any, config: Any, node: SchemaNode) -> Any:
    if type(live) is not dict or not live:
        return config
    if type(config) is not dict or not config:
        return live
    fields, others = node.fields, node.values or DEDUCED
    changed: dict[str, Any] = {}
    for name, value in config.items():
        if name not in live:
            changed[name] = value
            continue
        merged = merge_values(live[name], value, fields.get(name) or others)
        if merged is not live[name]:
            changed[name] = merged
    return {**live, **changed} if changed else live


def _merge_lists(live: Any, config: Any, node: SchemaNode) -> Any:
    if type(live) is not list or not live:
        return config
    if type(config) is not list or not config:
        return live
    lefts = [(_place(item, node), item) for item in live]
    rights = [(item_element(item, node), item) for item in config]
    merged = _ListMerge(lefts, rights, node.items).run()
    same = len(merged) == len(live) and all(map(operator.is_, merged, live))
    return live if same else merged


def _place(item: Any, node: SchemaNode) -> str:
    try:
        return item_element(item, node)
    except PathElementError:
        # An item that no one can own equals no item of a configuration.
        return f"?{id(item)}"


class _ListMerge:
    """Merges two lists whose items are known by their path elements."""

    def __init__(
        self,
        lefts: list[tuple[str, Any]],
        rights: list[tuple[str, Any]],
        items: SchemaNode,
    ) -> None:
        self._lefts, self._rights, self._items = lefts, rights, items
        self._left_values: dict[str, Any] = {}
        for element, item in lefts:
            # Duplicates in the live list are not merged with: which one would it be?
            self._left_values[element] = None if element in self._left_values else item
        self._right_names = {element for element, _ in rights}
        self._shared = [element for element, _ in rights if element in self._left_values]
        self._merged: set[str] = set()
        self._out: list[Any] = []

    def run(self) -> list[Any]:
        left = right = 0
        while left < len(self._lefts) or right < len(self._rights):
            if left < len(self._lefts):
                element, item = self._lefts[left]
                if element not in self._right_names:
                    self._out.append(item)
                    left += 1
                    continue
                # A shared item is written where the configuration has it.
                if right < len(self._rights) and self._is_out_of_turn(element, right):
                    left += 1
                    continue
                if element in self._merged or element == self._rights[right][0]:
                    left += 1
            if right < len(self._rights):
                self._take(right)
                right += 1
        return self._out

    def _is_out_of_turn(self, element: str, right: int) -> bool:
        if element == self._rights[right][0]:
            return False
        return bool(self._shared) and self._shared[0] != element

    def _take(self, right: int) -> None:
        element, item = self._rights[right]
        self._merged.add(element)
        if self._shared and self._shared[0] == element:
            self._shared.pop(0)
        if element in self._left_values:
            item = merge_values(self._left_values[element], item, self._items)
        self._out.append(item)


def remove_fields(value: Any, fields: FieldSet, node: SchemaNode) -> Any:
    """Return a value without these fields; a list or map that loses its last item becomes None.

    Atomic lists and maps go as a whole where a field inside them is named.
    """
    return _remove(value, fields.tree, node) if fields else value


def _remove(value: Any, tree: Tree, node: SchemaNode) -> Any:
    kind = node.kind
    if kind == "scalar":
        return value
    if kind == "array":
        if node.list_type == "atomic" or type(value) is not list:
            return None
        return _remove_items(value, tree, node) or None
    if kind == "object" and node.map_type == "atomic":
        return None
    if type(value) is dict:
        return _remove_keys(value, tree, node) or None
    return value if kind == "untyped" and not isinstance(value, list) else None


def _remove_items(value: list[Any], tree: Tree, node: SchemaNode) -> list[Any]:
    rest: list[Any] = []
    for item in value:
        below = tree.get(_place(item, node))
        if below is None:
            rest.append(item)
        elif not is_member(below):
            rest.append(_remove(item, below, node.items))
    return rest


def _remove_keys(value: dict[str, Any], tree: Tree, node: SchemaNode) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    fields, others = node.fields, node.values or DEDUCED
    for name, part in value.items():
        below = tree.get(field_element(name))
        if below is None:
            rest[name] = part
        elif not is_member(below):
            rest[name] = _remove(part, below, fields.get(name) or others)
    return rest
