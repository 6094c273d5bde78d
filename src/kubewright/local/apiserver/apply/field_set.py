"""Sets of fields of an object: what one manager owns.

A set is kept as the tree that managedFields writes (`fieldsV1`): `{"f:data": {"f:k": {}}}`. An
empty dict is a member of the set; `"."` marks a member that has members below it; anything else is
only the way to its members. So sets come from the wire and go to it without being rebuilt.
Trees are never changed once built; operations share the parts that they leave alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from kubewright.local.apiserver.apply.path_element import (
    PathElementError,
    display_element,
    is_known_element,
    parse_element,
    sort_elements,
)
from kubewright.local.apiserver.schema.node import SchemaNode

Tree: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

_SELF = "."


class FieldSet:
    """An immutable set of paths to fields."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree | None = None) -> None:
        self.tree: Tree = tree or {}

    @classmethod
    def of(cls, paths: Iterable[Sequence[str]]) -> FieldSet:
        """Build the set of these paths; each is a sequence of path elements."""
        tree: Tree = {}
        for path in paths:
            branch: Tree = {}
            for element in reversed(path):
                branch = {element: branch}
            tree = _union(tree, branch) if tree else branch
        return cls(tree)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> FieldSet:
        """Read `fieldsV1`, as any client may have written it.

        Raises:
            PathElementError: a key is not a path element, or a value not an object.
        """
        return cls(_parse(fields, top=True))

    def to_fields(self) -> Tree:
        """Return `fieldsV1` in canonical order; an empty set is `{}`."""
        return _sort(self.tree)

    def union(self, other: FieldSet) -> FieldSet:
        """Return the paths that are in either set."""
        if not other.tree or other.tree is self.tree:
            return self
        return FieldSet(_union(self.tree, other.tree)) if self.tree else other

    def difference(self, other: FieldSet) -> FieldSet:
        """Return the paths that are in this set alone."""
        if not other.tree or not self.tree:
            return self
        return FieldSet(_subtract(self.tree, other.tree))

    def recursive_difference(self, other: FieldSet) -> FieldSet:
        """Return the paths of this set that are neither in the other nor below one of its."""
        if not other.tree or not self.tree:
            return self
        return FieldSet(_cut(self.tree, other.tree))

    def intersection(self, other: FieldSet) -> FieldSet:
        """Return the paths that are in both sets."""
        if not other.tree or not self.tree:
            return EMPTY
        return FieldSet(_intersect(self.tree, other.tree))

    def leaves(self) -> FieldSet:
        """Return the paths of this set that have none below them."""
        return FieldSet(_leaves(self.tree))

    def with_named_fields(self, node: SchemaNode) -> FieldSet:
        """Return the set with the declared fields that lie on the way to its paths."""
        return FieldSet(_add_named(self.tree, node))

    def has(self, path: Sequence[str]) -> bool:
        """Tell whether a path is in the set."""
        tree: Tree | None = self.tree
        for element in path:
            tree = tree.get(element) if tree else None
            if tree is None:
                return False
        return bool(path) and tree is not None and is_member(tree)

    def __iter__(self) -> Iterator[Path]:
        return _walk(self.tree, ())

    def __bool__(self) -> bool:
        return bool(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(display_path(path) for path in self)})"


EMPTY = FieldSet()


def display_path(path: Sequence[str]) -> str:
    """Write a path as messages do: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(display_element(element) for element in path)


def is_member(tree: Tree) -> bool:
    """Tell whether the place at which a tree hangs is itself in the set."""
    return not tree or _SELF in tree


def as_member(tree: Tree | None) -> Tree:
    """Return a tree with the place at which it hangs in the set; the tree itself is kept."""
    return {_SELF: {}, **tree} if tree and _SELF not in tree else tree or {}


def _union(left: Tree, right: Tree) -> Tree:
    if left is right:
        return left
    merged = dict(left)
    for element, theirs in right.items():
        ours = merged.get(element)
        if ours is None or ours is theirs:
            merged[element] = theirs
        elif not ours:
            merged[element] = as_member(theirs)
        elif not theirs:
            merged[element] = as_member(ours)
        else:
            merged[element] = _union(ours, theirs)
    return merged


def _subtract(left: Tree, right: Tree) -> Tree:
    rest: Tree = {}
    for element, ours in left.items():
        theirs = right.get(element)
        if theirs is None:
            rest[element] = ours
        elif element == _SELF or not ours:
            if not is_member(theirs):
                rest[element] = ours
        elif not theirs:
            below = {key: part for key, part in ours.items() if key != _SELF}
            rest[element] = below
        elif below := _subtract(ours, theirs):
            # Only the mark of membership is left: the place is a member without children.
            rest[element] = {} if len(below) == 1 and _SELF in below else below
    return rest


def _cut(left: Tree, right: Tree) -> Tree:
    rest: Tree = {}
    for element, ours in left.items():
        theirs = right.get(element)
        if theirs is None:
            rest[element] = ours
        elif not is_member(theirs):
            below = _cut(ours, theirs)
            if below or not ours:
                rest[element] = {} if len(below) == 1 and _SELF in below else below
    return rest


def _intersect(left: Tree, right: Tree) -> Tree:
    both: Tree = {}
    for element, ours in left.items():
        theirs = right.get(element)
        if theirs is None:
            continue
        if ours is theirs:
            both[element] = ours
        elif not ours or not theirs:
            if is_member(ours) and is_member(theirs):
                both[element] = {}
        elif below := _intersect(ours, theirs):
            both[element] = {} if len(below) == 1 and _SELF in below else below
    return both


def _leaves(tree: Tree) -> Tree:
    return {element: _leaves(below) for element, below in tree.items() if element != _SELF}


def _add_named(tree: Tree, node: SchemaNode | None) -> Tree:
    named: Tree = {}
    fields = node.fields if node is not None else {}
    for element, below in tree.items():
        if not below:
            named[element] = below
            continue
        declared = fields.get(element[2:]) if element[0] == "f" else None
        child = declared
        if node is not None and declared is None:
            child = node.values if element[0] == "f" else node.items if element[0] == "k" else None
        below = _add_named(below, child)
        named[element] = as_member(below) if declared is not None else below
    return named


def _walk(tree: Tree, prefix: Path) -> Iterator[Path]:
    elements = sort_elements([element for element in tree if element != _SELF])
    for element in elements:
        if is_member(tree[element]):
            yield (*prefix, element)
    for element in elements:
        if tree[element]:
            yield from _walk(tree[element], (*prefix, element))


def _sort(tree: Tree) -> Tree:
    if len(tree) < 2:
        return {element: _sort(below) if below else {} for element, below in tree.items()}
    ordered: Tree = {}
    if _SELF in tree:
        ordered[_SELF] = {}
    for element in sort_elements([element for element in tree if element != _SELF]):
        below = tree[element]
        ordered[element] = _sort(below) if below else {}
    return ordered


def _parse(fields: Mapping[str, Any], *, top: bool = False) -> Tree:
    tree: Tree = {}
    for text, below in fields.items():
        if not isinstance(below, Mapping):
            raise PathElementError(f"the value of {text!r} in fieldsV1 is not an object")
        if text == _SELF:
            if not top:
                tree[_SELF] = {}
            continue
        # Elements of a kind that a later version may bring are passed over.
        if is_known_element(text):
            tree[parse_element(text)] = _parse(below)
    # A mark of membership with nothing beside it says no more than an empty object.
    return {} if len(tree) == 1 and _SELF in tree else tree
