"""Lists of type set and map: no duplicates (KEP-1027, x-kubernetes-list-type)."""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.violation import ROOT, Path, Violation, duplicate, invalid

_canonical = msgspec.json.Encoder(order="deterministic").encode


def has_list_types(schema: StructuralSchema) -> bool:
    """Tell whether any list of the schema must be free of duplicates."""
    children = [*schema.properties.values(), schema.additional, schema.items]
    return schema.list_type in ("set", "map") or any(
        has_list_types(child) for child in children if child is not None
    )


def validate_lists(schema: StructuralSchema, value: Any) -> list[Violation]:
    """Return the duplicates of all sets and maps of a value, by its schema."""
    out: list[Violation] = []
    _walk(schema, value, ROOT, out)
    return out


def _walk(schema: StructuralSchema, value: Any, path: Path, out: list[Violation]) -> None:
    if type(value) is list:
        if schema.list_type == "set":
            _check(value, value, path, out)
        elif schema.list_type == "map":
            keys = schema.list_map_keys
            out += _find_non_objects(value, path)
            _check([_map_key(item, keys) for item in value], value, path, out)
        if schema.items is not None:
            for index, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    _walk(schema.items, item, (path, index), out)
    elif type(value) is dict:
        for key, item in value.items():
            if type(item) is dict or type(item) is list:
                child = schema.child(key)
                if child is not None:
                    _walk(child, item, (path, key), out)


def _find_non_objects(value: list[Any], path: Path) -> list[Violation]:
    detail = "must be an object for an array of list-type map"
    return [
        invalid((path, index), item, detail)
        for index, item in enumerate(value)
        if item is not None and type(item) is not dict
    ]


def _map_key(item: Any, keys: tuple[str, ...]) -> Any:
    if type(item) is not dict:
        return None
    return {key: item[key] for key in sorted(keys) if key in item}


def _check(identities: list[Any], items: list[Any], path: Path, out: list[Violation]) -> None:
    seen: dict[bytes, int] = {}
    for index, identity in enumerate(identities):
        if identity is None:
            continue
        text = _canonical(identity)
        seen[text] = times = seen.get(text, 0) + 1
        # What stands there three times is told once.
        if times == 2:
            out.append(duplicate(path, (path, index), identity))
