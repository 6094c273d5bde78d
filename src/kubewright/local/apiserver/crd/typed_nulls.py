"""Nulls in applied custom objects, where the schema does not allow them."""

from __future__ import annotations

from typing import Any

from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.value_validation import compile_validator
from kubewright.local.apiserver.crd.violation import ROOT, Path, Violation


def find_nulls(schema: StructuralSchema, value: Any) -> list[Violation]:
    """Return what is wrong with nulls: their type, and that no enum has them.

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
                compile_validator(child.raw)(None, here, found)
            _walk(child, item, here, found)
    elif type(value) is list and schema.items is not None:
        for index, item in enumerate(value):
            _walk(schema.items, item, (path, index), found)
