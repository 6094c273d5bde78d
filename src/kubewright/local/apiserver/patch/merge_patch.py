"""JSON merge patch (RFC 7386), as kube-apiserver reads it."""

from __future__ import annotations

from typing import Any

from kubewright.api.errors import BadRequest
from kubewright.local.apiserver.schema.json_value import GO_TYPES


def apply_patch(doc: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the document with the patch merged in; neither is changed.

    A null in the patch removes what it names; lists are replaced. Beyond the RFC, nulls are also
    dropped from objects inside new lists.

    Raises:
        BadRequest: the patch is not an object.
    """
    if isinstance(patch, dict):
        return _merge_objects(doc, patch)
    if patch is None:
        raise BadRequest("Invalid JSON Patch", None)
    kind = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
    raise BadRequest(
        f"error decoding patch: json: cannot unmarshal {kind} into Go value of type "
        f"{GO_TYPES[dict]}",
        None,
    )


def _merge_objects(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(doc)
    for key, value in patch.items():
        current = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(current, dict):
            merged[key] = _merge_objects(current, value) if isinstance(value, dict) else value
        else:
            merged[key] = _without_nulls(value)
    return merged


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
