"""JSON bodies as Go's decoders read them, with the keys that stand twice."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_DECODE = msgspec.json.Decoder().decode
_KEY_END = re.compile(rb'"\s*:')


class DocumentError(ValueError):
    """A body is not what its media type says; the text tells where."""


def decode_json(body: bytes, *, merge: bool = False) -> tuple[Any, list[str]]:
    """Decode JSON.

    Args:
        body: the text.
        merge: decode objects that stand twice under one key into each other, as Go does with
            structs and maps of built-in kinds. Otherwise the last one counts.

    Returns:
        The value, and a complaint (`duplicate field "spec.x"`) for each key that stands twice.

    Raises:
        DocumentError: it is no JSON.
    """
    try:
        value = _DECODE(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DocumentError(str(error)) from None
    # Every key ends in a quote and a colon: more of those than keys, and one may stand twice.
    if len(_KEY_END.findall(body)) == _count_keys(value):
        return value, []
    tree = json.loads(body, object_pairs_hook=_Pairs)
    found: dict[str, None] = {}
    _find_duplicates(tree, "", found)
    if merge and found:
        value = _merge_pairs(tree)
    return value, [f'duplicate field "{path}"' for path in found]


def _count_keys(value: Any) -> int:
    if type(value) is dict:
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if type(value) is list else 0


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written."""


def _find_duplicates(value: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                found[here] = None
            seen.add(key)
            _find_duplicates(item, here, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_duplicates(item, f"{path}[{index}]", found)


def _merge_pairs(value: Any) -> Any:
    if isinstance(value, _Pairs):
        merged: dict[str, Any] = {}
        for key, item in value:
            old, new = merged.get(key), _merge_pairs(item)
            both = isinstance(old, dict) and isinstance(new, dict)
            merged[key] = _merge_objects(old, new) if both else new
        return merged
    return [_merge_pairs(item) for item in value] if isinstance(value, list) else value


def _merge_objects(old: Any, new: Any) -> dict[str, Any]:
    merged = dict(old)
    for key, item in new.items():
        both = isinstance(item, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge_objects(merged[key], item) if both else item
    return merged
