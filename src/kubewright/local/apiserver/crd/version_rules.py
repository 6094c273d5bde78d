"""Rules of what a version of a CustomResourceDefinition has beside its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.local.apiserver.crd.definition import version_parts
from kubewright.local.apiserver.crd.json_path import JSONPath, JSONPathError
from kubewright.local.apiserver.field_error import invalid, required

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_LEADING_DOT = "must be a simple json path starting with ."
_SIMPLE_PATH = re.compile(r"(\.[A-Za-z_][\w-]*)+")
_SELECTABLE_TYPES = ("boolean", "integer", "string")
_SELECTABLE_LIMIT = 8
_WARNING_LIMIT = 256


def validate_columns(columns: list[Mapping[str, Any]], path: str) -> list[Cause]:
    """Return what is wrong with printer columns."""
    causes: list[Cause] = []
    for index, column in enumerate(columns):
        field = f"{path}[{index}]"
        if not column.get("name"):
            causes.append(required(f"{field}.name"))
        causes += _validate_word(column.get("type"), _COLUMN_TYPES, f"{field}.type", needed=True)
        causes += _validate_word(column.get("format"), _COLUMN_FORMATS, f"{field}.format")
        text = column.get("jsonPath")
        if not text:
            causes.append(required(f"{field}.JSONPath"))
            continue
        if not text.startswith("."):
            causes.append(invalid(f"{field}.JSONPath", text, _LEADING_DOT))
            continue
        try:
            JSONPath(text)
        except JSONPathError as error:
            causes.append(invalid(f"{field}.JSONPath", text, f"is an invalid JSONPath: {error}"))
    return causes


def _validate_word(
    value: str | None, choices: tuple[str, ...], field: str, *, needed: bool = False
) -> list[Cause]:
    detail = f"must be one of {','.join(choices)}"
    if not value:
        return [required(field, detail)] if needed else []
    return [] if value in choices else [invalid(field, value, detail)]


def validate_subresources(subresources: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what is wrong with the paths of the scale subresource."""
    scale = subresources.get("scale")
    if scale is None:
        return []
    field = f"{path}.scale"
    causes = _validate_scale_path(scale, f"{field}.specReplicasPath", (".spec",))
    causes += _validate_scale_path(scale, f"{field}.statusReplicasPath", (".status",))
    if scale.get("labelSelectorPath"):
        roots = (".spec", ".status")
        causes += _validate_scale_path(scale, f"{field}.labelSelectorPath", roots)
    return causes


def _validate_scale_path(
    scale: Mapping[str, Any], field: str, roots: tuple[str, ...]
) -> list[Cause]:
    text = scale.get(field.rpartition(".")[2])
    if not text:
        return [required(field)]
    if not text.startswith("."):
        return [invalid(field, text, _LEADING_DOT)]
    if not _SIMPLE_PATH.fullmatch(text):
        return [invalid(field, text, "is an invalid JSONPath: only simple fields are allowed")]
    if not text.startswith(tuple(f"{root}." for root in roots)):
        where = roots[0] if len(roots) == 1 else f"either {' or '.join(roots)}"
        return [invalid(field, text, f"should be a json path under {where}")]
    return []


def validate_selectable_fields(spec: Mapping[str, Any]) -> list[Cause]:
    """Return what is wrong with `selectableFields`: each must name a scalar of the schema."""
    schemas = [
        (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for version in spec.get("versions") or ()
    ]
    causes: list[Cause] = []
    for at, (path, fields) in enumerate(version_parts(spec, "selectableFields")):
        schema = schemas[at] if at < len(schemas) else {}
        causes += _validate_selectable(fields, schema, path)
    return causes


def _validate_selectable(
    fields: list[Mapping[str, Any]], schema: Mapping[str, Any], path: str
) -> Iterator[Cause]:
    seen: set[str] = set()
    faulty = False
    for index, entry in enumerate(fields):
        field, text = f"{path}[{index}].jsonPath", entry.get("jsonPath") or ""
        if not text:
            yield required(field)
            continue
        if text in seen:
            yield Cause("FieldValueDuplicate", f'Duplicate value: "{text}"', field)
        seen.add(text)
        for cause in _validate_selectable_path(text, schema, field):
            faulty = True
            yield cause
    if len(fields) > _SELECTABLE_LIMIT and len(seen) == len(fields) and not faulty:
        message = f"Too many: {len(fields)}: must have at most {_SELECTABLE_LIMIT} items"
        yield Cause("FieldValueTooMany", message, path)


def _validate_selectable_path(text: str, schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    if not _SIMPLE_PATH.fullmatch(text):
        yield invalid(field, text, f"is an invalid path: {_fault_of(text)}")
        return
    node: Mapping[str, Any] | None = schema
    for name in text.removeprefix(".").split("."):
        node = (node.get("properties") or {}).get(name) if node else None
    if node is None:
        yield invalid(field, text, "is an invalid path: does not refer to a valid field")
    elif node.get("type") not in _SELECTABLE_TYPES:
        detail = (
            "must point to a field of type string, boolean or integer. Enum string fields and "
            "strings with formats are allowed."
        )
        yield invalid(field, text, detail)


def _fault_of(text: str) -> str:
    if not text.startswith((".", "[")):
        return f"expected [ or . but got: {text.partition('.')[0]}"
    if text.endswith("."):
        return "unexpected end of JSON path"
    return "array notation is not allowed" if "[" in text else "only simple fields are allowed"


def validate_deprecation(version: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what is wrong with the `deprecationWarning` of a version."""
    text = version.get("deprecationWarning")
    if text is None:
        return []
    field = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid(field, text, "can only be set for deprecated versions")]
    if not text:
        return [invalid(field, text, "must not be an empty string")]
    if len(text) > _WARNING_LIMIT:
        return [invalid(field, text, f"must be <= {_WARNING_LIMIT} characters long")]
    at = next((at for at, char in enumerate(text) if not char.isprintable()), None)
    if at is None:
        return []
    detail = (
        f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
    )
    return [invalid(field, text, detail)]
