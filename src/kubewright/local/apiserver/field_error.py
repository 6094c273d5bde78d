"""Causes of an Invalid status: the error kinds of `field.Error` and their wording."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kubewright.api.errors import Cause


def show(value: Any) -> str:
    """Write a value as messages quote it: scalars plainly, text quoted, the rest as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def required(field: str, detail: str = "") -> Cause:
    """Say that a value is missing."""
    return Cause("FieldValueRequired", _join("Required value", detail), field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    """Say that a value is wrong."""
    return Cause("FieldValueInvalid", _join(f"Invalid value: {show(value)}", detail), field)


def forbidden(field: str, detail: str = "") -> Cause:
    """Say that a value may not be there."""
    return Cause("FieldValueForbidden", _join("Forbidden", detail), field)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """Say that a value is none of those possible."""
    names = ", ".join(show(name) for name in supported)
    message = f"Unsupported value: {show(value)}"
    detail = f"supported values: {names}" if names else ""
    return Cause("FieldValueNotSupported", _join(message, detail), field)


def duplicate(field: str, value: Any) -> Cause:
    """Say that a value is there twice."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {show(value)}", field)


def not_found(field: str, value: Any) -> Cause:
    """Say that what a value refers to is not there."""
    return Cause("FieldValueNotFound", f"Not found: {show(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    """Say that a text has too many bytes."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, count: int, limit: int) -> Cause:
    """Say that a list has too many items."""
    detail = f"must have at most {limit} items"
    return Cause("FieldValueTooMany", f"Too many: {count}: {detail}", field)


def _join(message: str, detail: str) -> str:
    return f"{message}: {detail}" if detail else message
