"""Defaults of built-in kinds: one table by Go type, one walk over an object.

A type's defaults are constants for the fields that are not set, or a function for what constants
cannot say. Outer types come before inner ones, as in the generated defaulters of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Literal

from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.defaults import cluster, core, workloads
from kubewright.local.apiserver.builtin.shapes import (
    ListShape,
    MapShape,
    Shape,
    StructShape,
    struct_of,
)

Default = Mapping[str, Any] | Callable[[Object], None]

_TABLE: Mapping[str, Default] = {**core.DEFAULTS, **workloads.DEFAULTS, **cluster.DEFAULTS}
_PREFIX = "io.k8s.api."
# The one type that holds itself; nothing in it has defaults.
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


class _Plan:
    """What to default in a struct: its own rule, and the fields below which there is more."""

    __slots__ = ("children", "own", "values")

    def __init__(self, own: Default | None) -> None:
        self.own = own
        # Of the fields that are no pointers, which are unset when they are zero.
        self.values: frozenset[str] = frozenset()
        self.children: list[tuple[str, Literal["struct", "list", "map"], _Plan]] = []

    @property
    def is_empty(self) -> bool:
        return self.own is None and not self.children


@cache
def _plan(definition: str) -> _Plan:
    plan = _Plan(_TABLE.get(definition.removeprefix(_PREFIX)))
    if definition == _SCHEMA:
        return plan
    fields = struct_of(definition).fields
    plan.values = frozenset(name for name, field in fields.items() if not field.pointer)
    for field in fields.values():
        # Only a code with a reference can lead to a struct.
        if "@" not in field.type:
            continue
        kind, inner = _inner(field.shape)
        if inner is not None and not (child := _plan(inner)).is_empty:
            plan.children.append((field.name, kind, child))
    return plan


def _inner(shape: Shape) -> tuple[Literal["struct", "list", "map"], str | None]:
    if isinstance(shape, StructShape):
        return "struct", shape.definition
    item = shape.items if isinstance(shape, ListShape) else None
    if isinstance(shape, MapShape):
        item = shape.values
    kind: Literal["list", "map"] = "map" if isinstance(shape, MapShape) else "list"
    return kind, item.definition if isinstance(item, StructShape) else None


def apply_defaults(obj: Object, definition: str) -> None:
    """Fill in the defaults of a decoded object of any built-in type, in place."""
    _apply(_plan(definition), obj)


def _apply(plan: _Plan, obj: Object) -> None:
    if isinstance(plan.own, Mapping):
        for key, value in plan.own.items():
            unset = obj.get(key)
            if unset is None or (key in plan.values and unset in ("", 0)):
                obj[key] = deepcopy(value) if isinstance(value, dict | list) else value
    elif plan.own is not None:
        plan.own(obj)
    for key, kind, child in plan.children:
        value = obj.get(key)
        if not value and value != {}:
            continue
        if kind == "struct":
            _apply(child, value)
        else:
            for item in value.values() if kind == "map" else value:
                _apply(child, item)
