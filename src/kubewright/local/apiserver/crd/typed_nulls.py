"""Nulls in applied custom objects, where the schema does not allow them."""

from __future__ import annotations

from typing import Any

from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.violation import (
    ROOT,
    Path,
    Violation,
    format_path,
    type_invalid,
)


def find_nulls(schema: StructuralSchema, value: Any) -> list[Violation]:
    """Return the nulls that are of a wrong type.

    Other writes drop them when they are decoded; an apply is not decoded, and is refused. Items of
    lists are left to validation, which looks at them after any write.
    """
    found: list[Violation] = []
    _walk(schema, value, ROOT, found)
    return found


def _walk(schema: StructuralSchema, value: Any, path: Path, found: list[Violation]) -> None:
    if type(value) is dict:
        for key, item in value.items():
            child = schema.child(key)
            if child is None:
                continue
            here = (path, key)
            if item is None and not child.nullable and not child.has_default:
                found += _refuse(child, here)
            _walk(child, item, here, found)
    elif type(value) is list and schema.items is not None:
        for index, item in enumerate(value):
            _walk(schema.items, item, (path, index), found)


def _refuse(schema: StructuralSchema, path: Path) -> list[Violation]:
    expected = schema.raw.get("type")
    if not expected:
        return []
    detail = f'{format_path(path)} in body must be of type {expected}: "null"'
    return [type_invalid(path, "null", detail)]
