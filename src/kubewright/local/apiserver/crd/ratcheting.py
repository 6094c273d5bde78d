"""Ratcheting: an update may keep what was wrong before (KEP-4008)."""

from __future__ import annotations

from typing import Any, Final

from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.violation import Violation, path_steps

_UNCORRELATED: Final = object()


def drop_unchanged(
    violations: list[Violation], schema: StructuralSchema, new: Any, old: Any
) -> list[Violation]:
    """Return the violations whose place, and all above it, differ from the old object.

    Items of a map list correspond by their keys, other list items not at all: a plain list is
    unchanged only as a whole.
    """
    return [v for v in violations if not is_unchanged(v, schema, new, old)]


def is_unchanged(violation: Violation, schema: StructuralSchema, new: Any, old: Any) -> bool:
    """Tell whether the place of a violation, or anything above it, is as it was."""
    node: StructuralSchema | None = schema
    for step in path_steps(violation.node):
        if old == new:
            return True
        old = _correlate(node, new, old, step)
        if old is _UNCORRELATED or type(new) not in (dict, list):
            return False
        new = new[step]
        if node is not None:
            node = node.items if isinstance(step, int) else node.child(step)
    return bool(old == new)


def _correlate(node: StructuralSchema | None, new: Any, old: Any, step: str | int) -> Any:
    """Return what was at a step below, before."""
    if type(old) is dict and type(new) is dict:
        return old.get(step, _UNCORRELATED)
    if type(old) is not list or type(new) is not list or node is None or node.list_type != "map":
        return _UNCORRELATED
    item = new[step] if isinstance(step, int) else None
    if type(item) is not dict:
        return _UNCORRELATED
    keys = {key: item.get(key) for key in node.list_map_keys}
    for before in old:
        if type(before) is dict and all(before.get(key) == keys[key] for key in keys):
            return before
    return _UNCORRELATED
