"""Metadata of custom objects, and of objects embedded in them: decode strictly, validate.

Custom objects have no Go type, but their `metadata` is read as ObjectMeta: unknown fields are
dropped and told, wrong types are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from kubewright.api.errors import BadRequest
from kubewright.api.resource import Object

_Shape: TypeAlias = "str | Mapping[str, _Shape] | tuple[_Shape]"

# A string names a scalar type or "any"; a mapping a struct; a tuple of one a list of that.
_OWNER_REFERENCE: Final[Mapping[str, _Shape]] = {
    "apiVersion": "string",
    "kind": "string",
    "name": "string",
    "uid": "string",
    "controller": "bool",
    "blockOwnerDeletion": "bool",
}
_MANAGED_FIELDS: Final[Mapping[str, _Shape]] = {
    "manager": "string",
    "operation": "string",
    "apiVersion": "string",
    "time": "string",
    "fieldsType": "string",
    "fieldsV1": "any",
    "subresource": "string",
}
OBJECT_META: Final[Mapping[str, _Shape]] = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "selfLink": "string",
    "uid": "string",
    "resourceVersion": "string",
    "generation": "int64",
    "creationTimestamp": "string",
    "deletionTimestamp": "string",
    "deletionGracePeriodSeconds": "int64",
    "labels": "map[string]string",
    "annotations": "map[string]string",
    "ownerReferences": (_OWNER_REFERENCE,),
    "finalizers": ("string",),
    "managedFields": (_MANAGED_FIELDS,),
}
_JSON_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    dict: "object",
    float: "number",
    int: "number",
    list: "array",
    str: "string",
}


class MalformedMetadata(ValueError):
    """A field of metadata has a type that ObjectMeta cannot hold."""


def decode_object_metadata(obj: Object, path: str = "metadata") -> list[str]:
    """Drop unknown fields and nulls of `obj["metadata"]`, in place; return the unknown paths.

    Raises:
        MalformedMetadata: a field has the wrong type.
    """
    metadata = obj.get("metadata")
    if metadata is None:
        obj.pop("metadata", None)
        return []
    unknown: list[str] = []
    obj["metadata"] = _decode(metadata, OBJECT_META, path, "ObjectMeta.metadata", unknown)
    return unknown


def decode_or_refuse(obj: Object, kind: str, version: str) -> list[str]:
    """Decode the metadata of a request's object.

    Raises:
        BadRequest: a field has the wrong type.
    """
    try:
        return decode_object_metadata(obj)
    except MalformedMetadata as error:
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
        raise BadRequest(message, None) from error


def _decode(value: Any, shape: _Shape, path: str, go_path: str, unknown: list[str]) -> Any:
    if isinstance(shape, str):
        return _decode_scalar(value, shape, go_path)
    if isinstance(shape, tuple):
        if type(value) is not list:
            raise _mismatch(value, go_path, "[]" + _go_name(shape[0]))
        return [
            _decode(item, shape[0], f"{path}[{index}]", go_path, unknown)
            for index, item in enumerate(value)
        ]
    if type(value) is not dict:
        raise _mismatch(value, go_path, "v1.ObjectMeta" if shape is OBJECT_META else "struct")
    known: dict[str, Any] = {}
    for key, item in value.items():
        field = shape.get(key)
        if field is None:
            unknown.append(f"{path}.{key}")
        elif item is not None:
            known[key] = _decode(item, field, f"{path}.{key}", f"{go_path}.{key}", unknown)
    return known


def _decode_scalar(value: Any, shape: str, go_path: str) -> Any:
    kind = type(value)
    if shape == "any":
        return value
    if shape == "map[string]string":
        if kind is not dict:
            raise _mismatch(value, go_path, shape)
        for item in value.values():
            if item is not None and type(item) is not str:
                raise _mismatch(item, go_path, "string")
        return {key: "" if item is None else item for key, item in value.items()}
    expected = {"string": str, "bool": bool, "int64": int}[shape]
    if kind is float and expected is int and value.is_integer():
        return int(value)
    if kind is not expected:
        raise _mismatch(value, go_path, shape)
    return value


def _go_name(shape: _Shape) -> str:
    if shape is _OWNER_REFERENCE:
        return "v1.OwnerReference"
    return "v1.ManagedFieldsEntry" if shape is _MANAGED_FIELDS else str(shape)


def _mismatch(value: Any, go_path: str, expected: str) -> MalformedMetadata:
    found = _JSON_NAMES.get(type(value), "null")
    return MalformedMetadata(
        f"json: cannot unmarshal {found} into Go struct field {go_path} of type {expected}"
    )
