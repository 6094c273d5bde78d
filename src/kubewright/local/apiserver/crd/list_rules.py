"""Rules of `x-kubernetes-list-type` and `x-kubernetes-list-map-keys` in schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required

_LIST_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"


def validate_list_types(schema: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what is wrong with the list type of one node."""
    list_type, keys = schema.get(_LIST_TYPE), schema.get(_KEYS) or []
    causes: list[Cause] = []
    if list_type is not None:
        if schema.get("type") != "array":
            causes.append(_not_array(schema, path))
        elif list_type not in ("atomic", "map", "set"):
            field = f"{path}.{_LIST_TYPE}"
            causes.append(not_supported(field, list_type, ("atomic", "set", "map")))
    if keys and list_type != "map":
        detail = f"must be map if {_KEYS} is non-empty"
        field = f"{path}.{_LIST_TYPE}"
        causes.append(
            required(field, detail) if list_type is None else invalid(field, list_type, detail)
        )
    if list_type == "map":
        causes += _validate_map(schema, keys, path)
    if list_type == "set":
        causes += _validate_set(schema, path)
    return causes


def _not_array(schema: Mapping[str, Any], path: str) -> Cause:
    detail = f"must be array if {_LIST_TYPE} is specified"
    found = schema.get("type")
    return invalid(f"{path}.type", found, detail) if found else required(f"{path}.type", detail)


def _validate_map(schema: Mapping[str, Any], keys: list[str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not keys:
        causes.append(required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map"))
    items = schema.get("items")
    if not isinstance(items, Mapping):
        detail = f"must have a schema if {_LIST_TYPE} is map"
        return [*causes, required(f"{path}.items", detail)]
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        causes.append(invalid(f"{path}.items.type", items.get("type") or "", detail))
        return causes
    for index, key in enumerate(keys):
        causes += _validate_key(items, keys, index, key, path)
    return causes


def _validate_key(
    items: Mapping[str, Any], keys: list[str], index: int, key: str, path: str
) -> list[Cause]:
    causes: list[Cause] = []
    prop = (items.get("properties") or {}).get(key)
    field = f"{path}.{_KEYS}"
    if prop is None:
        causes.append(invalid(field, keys, "entries must all be names of item properties"))
    elif prop.get("type") in ("array", "object"):
        detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
        where = f"{path}.items.properties[{key}].type"
        causes.append(invalid(where, items.get("type"), detail))
    if key in keys[:index]:
        causes.append(invalid(field, keys, "must not contain duplicate entries"))
    if prop is None:
        return causes
    where = f"{path}.items.properties[{key}]"
    if key not in (items.get("required") or ()) and prop.get("default") is None:
        detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
        causes.append(required(f"{where}.default", detail))
    if prop.get("nullable"):
        detail = f"this property is in {_KEYS}, so it cannot be nullable"
        causes.append(forbidden(f"{where}.nullable", detail))
    return causes


def _validate_set(schema: Mapping[str, Any], path: str) -> list[Cause]:
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return []
    causes: list[Cause] = []
    if items.get("nullable"):
        detail = f"cannot be nullable when {_LIST_TYPE} is set"
        causes.append(forbidden(f"{path}.items.nullable", detail))
    detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        causes.append(invalid(f"{path}.items.x-kubernetes-map-type", None, detail))
    nested = items.get(_LIST_TYPE)
    if items.get("type") == "array" and nested not in (None, "atomic"):
        causes.append(invalid(f"{path}.items.{_LIST_TYPE}", nested, detail))
    return causes
