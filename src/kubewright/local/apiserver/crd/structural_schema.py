"""Structural schemas: prune, default and validate custom objects (KEP-2337, KEP-1979).

A `StructuralSchema` is compiled once from a version's `openAPIV3Schema`; it is asked at each write.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from kubewright.local.apiserver.crd.value_validation import Schema, Validate, compile_validator
from kubewright.local.apiserver.crd.violation import ROOT, Path, Violation, format_path

_MISSING: Final = object()
_INT64: Final = 2**63
_IMPLICIT = frozenset({"apiVersion", "kind", "metadata"})


class StructuralSchema:
    """One node of a structural schema, with its children.

    `raw` is the JSONSchemaProps it was compiled from. `additional` is the schema of undeclared
    properties; where the source has a boolean there, it is a schema that declares nothing.
    """

    __slots__ = (
        "_defaulted",
        "_walks",
        "additional",
        "default_value",
        "has_default",
        "is_embedded_resource",
        "items",
        "list_map_keys",
        "list_type",
        "nullable",
        "preserves_unknown",
        "properties",
        "raw",
        "validator",
        "wants_number",
    )

    def __init__(self, schema: Schema) -> None:
        self.raw = schema
        self.nullable = bool(schema.get("nullable"))
        self.default_value = schema.get("default")
        # A null default is no default: KEP-1979 keeps Go's nil for "not set".
        self.has_default = self.default_value is not None
        self.preserves_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.is_embedded_resource = bool(schema.get("x-kubernetes-embedded-resource"))
        self.list_type = schema.get("x-kubernetes-list-type")
        self.list_map_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.wants_number = schema.get("type") in ("integer", "number") or bool(
            schema.get("x-kubernetes-int-or-string")
        )
        self.properties = {
            name: StructuralSchema(child)
            for name, child in (schema.get("properties") or {}).items()
        }
        additional = schema.get("additionalProperties")
        self.additional: StructuralSchema | None = None
        if additional is not None:
            # A boolean says nothing of the values: null is as good as any.
            declares = isinstance(additional, dict)
            self.additional = StructuralSchema(additional if declares else {"nullable": True})
        items = schema.get("items")
        self.items = StructuralSchema(items) if isinstance(items, dict) and items else None
        self.validator: Validate | None = None
        self._defaulted = [
            (name, child.nullable, _copier(child.default_value))
            for name, child in self.properties.items()
            if child.has_default
        ]
        self._walks = bool(self.properties or self.additional or self.items)

    def child(self, key: str) -> StructuralSchema | None:
        """Return the schema of a property, declared or additional."""
        return self.properties.get(key) or self.additional

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Drop the fields of a whole object that the schema does not declare, in place.

        `apiVersion`, `kind` and `metadata` are left alone. Returns the paths of what is gone,
        sorted, such as `spec.list[0].name`.
        """
        unknown: list[str] = []
        self._prune_map(obj, ROOT, unknown, is_resource=True)
        unknown.sort()
        return unknown

    def prune_value(self, value: Any) -> list[str]:
        """Drop undeclared fields of any value of this schema, in place; return their paths."""
        unknown: list[str] = []
        if type(value) is dict or type(value) is list:
            self._prune(value, ROOT, unknown)
        unknown.sort()
        return unknown

    def _prune(self, value: Any, path: Path, unknown: list[str]) -> None:
        if type(value) is dict:
            self._prune_map(value, path, unknown, is_resource=self.is_embedded_resource)
        else:
            self._prune_list(value, path, unknown)

    def _prune_map(
        self, value: dict[str, Any], path: Path, unknown: list[str], *, is_resource: bool
    ) -> None:
        properties, additional = self.properties, self.additional
        gone: list[str] = []
        for key, item in value.items():
            child = properties.get(key)
            if is_resource and key in _IMPLICIT:
                continue
            if child is None:
                child = additional
                if child is None:
                    if not self.preserves_unknown:
                        gone.append(key)
                    continue
            kind = type(item)
            if kind is dict or kind is list:
                child._prune(item, (path, key), unknown)
            elif kind is float and child.wants_number and item.is_integer() and abs(item) < 2**53:
                # Go writes 1.0 as 1, and reads back an integer.
                value[key] = int(item)
            elif kind is int and not -_INT64 <= item < _INT64:
                # Go reads what does not fit as a float.
                value[key] = float(item)
        for key in gone:
            del value[key]
            unknown.append(format_path((path, key)))

    def _prune_list(self, value: list[Any], path: Path, unknown: list[str]) -> None:
        items = self.items
        if items is None:
            if self.preserves_unknown:
                return
            items = _NOTHING
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                items._prune(item, (path, index), unknown)

    def default(self, value: Any) -> None:
        """Fill in defaults and drop nulls that the schema does not allow, in place."""
        if type(value) is dict:
            self._default_map(value)
        elif type(value) is list and self.items is not None:
            items = self.items
            for index, item in enumerate(value):
                if item is None and items.has_default and not items.nullable:
                    value[index] = item = copy.deepcopy(items.default_value)
                if (type(item) is dict or type(item) is list) and items._walks:
                    items.default(item)

    def _default_map(self, value: dict[str, Any]) -> None:
        for name, nullable, build in self._defaulted:
            found = value.get(name, _MISSING)
            if found is _MISSING or (found is None and not nullable):
                value[name] = build()
        properties, additional = self.properties, self.additional
        if not properties and additional is None:
            return
        gone: list[str] = []
        for key, item in value.items():
            kind = type(item)
            if kind is dict or kind is list:
                child = properties.get(key) or additional
                if child is not None and child._walks:
                    child.default(item)
            elif item is None:
                child = properties.get(key) or additional
                if child is not None and not child.nullable:
                    gone.append(key)
        for key in gone:
            child = properties.get(key) or additional
            if child is not None and child.has_default:
                value[key] = filled = copy.deepcopy(child.default_value)
                child.default(filled)
            else:
                del value[key]

    def validate(self, value: Any) -> list[Violation]:
        """Return all that is wrong with a value."""
        if self.validator is None:
            self.validator = compile_validator(self.raw)
        out: list[Violation] = []
        self.validator(value, ROOT, out)
        return out


_NOTHING: Final = StructuralSchema({})


def _copier(value: Any) -> Callable[[], Any]:
    """Return what builds a fresh copy of a default; scalars need none."""
    if isinstance(value, dict | list):
        return lambda: copy.deepcopy(value)
    return lambda: value
