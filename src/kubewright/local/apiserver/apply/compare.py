"""What differs between two values of one schema, as sets of fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kubewright.local.apiserver.apply.field_set import EMPTY, FieldSet, Tree
from kubewright.local.apiserver.apply.path_element import (
    PathElementError,
    field_element,
    item_element,
)
from kubewright.local.apiserver.schema.json_value import is_equal
from kubewright.local.apiserver.schema.node import DEDUCED, SchemaNode


class Comparison(msgspec.Struct, frozen=True):
    """The fields that only the old value has, that differ, and that only the new value has."""

    removed: FieldSet = EMPTY
    modified: FieldSet = EMPTY
    added: FieldSet = EMPTY

    def without(self, fields: FieldSet) -> Comparison:
        """Return the comparison without these fields and all below them."""
        if not fields:
            return self
        return Comparison(
            self.removed.recursive_difference(fields),
            self.modified.recursive_difference(fields),
            self.added.recursive_difference(fields),
        )

    @property
    def written(self) -> FieldSet:
        """The fields that the new value sets: modified and added ones."""
        return self.modified.union(self.added)


class _Difference(NamedTuple):
    removed: Tree | None
    modified: Tree | None
    added: Tree | None


_SAME = _Difference(None, None, None)
_MODIFIED = _Difference(None, {}, None)


def compare_values(old: Any, new: Any, node: SchemaNode) -> Comparison:
    """Compare two objects.

    Atomic lists and maps are compared as a whole; so are null and empty values. A value that only
    one side has counts with everything below it.
    """
    found = _compare(old, new, node)
    if found is _SAME:
        return Comparison()
    return Comparison(FieldSet(found.removed), FieldSet(found.modified), FieldSet(found.added))


def _compare(old: Any, new: Any, node: SchemaNode) -> _Difference:
    if old is new:
        return _SAME
    kind = node.kind
    if kind == "scalar":
        return _SAME if is_equal(old, new) else _MODIFIED
    if kind == "object":
        if node.map_type == "atomic" or not (old or new):
            return _SAME if is_equal(old, new) else _MODIFIED
        return _compare_maps(old, new, node)
    if kind == "array":
        if node.list_type == "atomic" or not (old or new):
            return _SAME if is_equal(old, new) else _MODIFIED
        return _compare_lists(old, new, node)
    return _compare_deduced(old, new, node)


def _compare_deduced(old: Any, new: Any, node: SchemaNode) -> _Difference:
    old_map, new_map = type(old) is dict, type(new) is dict
    if not (old_map and old) and not (new_map and new):
        return _SAME if is_equal(old, new) else _MODIFIED
    if (old_map or old is None) and (new_map or new is None):
        return _compare_maps(old, new, node)
    # A map became a scalar or list, or the reverse: its items go or come, and the place changed.
    found = _compare_maps(old if old_map else None, new if new_map else None, node)
    return _Difference(found.removed, {}, found.added)


def _compare_maps(old: Any, new: Any, node: SchemaNode) -> _Difference:
    old = old if type(old) is dict else {}
    new = new if type(new) is dict else {}
    trees = _Collector()
    fields, others = node.fields, node.values or DEDUCED
    for name, value in old.items():
        child = fields.get(name) or others
        if name not in new:
            trees.removed[field_element(name)] = _presence(value, child)
        elif value is not new[name]:
            trees.add(field_element(name), _compare(value, new[name], child))
    for name, value in new.items():
        if name not in old:
            trees.added[field_element(name)] = _presence(value, fields.get(name) or others)
    return trees.difference()


class _Collector:
    """Gathers the differences of the children of one place."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.removed: Tree = {}
        self.modified: Tree = {}
        self.added: Tree = {}

    def add(self, element: str, found: _Difference) -> None:
        if found is _SAME:
            return
        if found.removed is not None:
            self.removed[element] = found.removed
        if found.modified is not None:
            self.modified[element] = found.modified
        if found.added is not None:
            self.added[element] = found.added

    def difference(self) -> _Difference:
        if not (self.removed or self.modified or self.added):
            return _SAME
        return _Difference(self.removed or None, self.modified or None, self.added or None)


def _compare_lists(old: Any, new: Any, node: SchemaNode) -> _Difference:
    before, after = _group_items(old, node), _group_items(new, node)
    trees = _Collector()
    items = node.items
    for element in {**before, **after}:
        lefts, rights = before.get(element, []), after.get(element, [])
        if len(lefts) <= 1 and len(rights) <= 1:
            if not rights:
                trees.removed[element] = _presence(lefts[0], items)
            elif not lefts:
                trees.added[element] = _presence(rights[0], items)
            else:
                trees.add(element, _compare(lefts[0], rights[0], items))
        elif len(lefts) > 1 and len(rights) > 1:
            if not is_equal(lefts, rights):
                trees.modified[element] = {}
        elif len(lefts) > 1:
            # Duplicates are owned as one; what is left of them is a new item.
            trees.removed[element] = {}
            if rights:
                trees.added[element] = _presence(rights[0], items)
        else:
            trees.added[element] = {}
            if lefts:
                trees.removed[element] = _presence(lefts[0], items)
    return trees.difference()


def _group_items(value: Any, node: SchemaNode) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    if type(value) is list:
        for item in value:
            try:
                groups.setdefault(item_element(item, node), []).append(item)
            except PathElementError:
                # A live object may hold items that no one can own.
                continue
    return groups


def _presence(value: Any, node: SchemaNode) -> Tree:
    """Return the tree of a value that only one side has: itself and everything below it."""
    kind = node.kind
    if kind == "scalar" or not value:
        return {}
    if kind == "array":
        if node.list_type == "atomic" or type(value) is not list:
            return {}
        tree: Tree = {".": {}}
        items = node.items
        for element, group in _group_items(value, node).items():
            tree[element] = _presence(group[0], items) if len(group) == 1 else {}
        return tree
    if type(value) is not dict or (kind == "object" and node.map_type == "atomic"):
        return {}
    tree = {".": {}}
    fields, others = node.fields, node.values or DEDUCED
    for name, part in value.items():
        tree["f:" + name] = _presence(part, fields.get(name) or others)
    return tree
