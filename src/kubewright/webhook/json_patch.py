"""What a function changed in a typed object, as a JSON patch of the object that was sent.

A model may know fewer fields than the object has, and may show defaults that it has not. So what
changed between two states of the model is carried over to the object, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.api.resource import Object


def carry_over(live: Any, before: Any, after: Any) -> Any:
    """Return `live` with the changes that lead from `before` to `after`."""
    if before == after:
        return live
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(live, dict):
        return _carry_over_fields(live, before, after)
    if isinstance(before, list) and isinstance(after, list) and isinstance(live, list):
        return _carry_over_items(live, before, after)
    return after


def _carry_over_fields(live: Object, before: Object, after: Object) -> Object:
    changed = {key: value for key, value in live.items() if key in after or key not in before}
    for key, value in after.items():
        if key not in before or before[key] != value:
            changed[key] = carry_over(live.get(key), before.get(key), value)
    return changed


def _carry_over_items(live: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(live) != len(before):
        return after
    # An item that moved keeps what the model does not know of it; one that stayed is changed.
    known = [before.index(item) if item in before else -1 for item in after]
    stayed = len(before) == len(after)
    return [
        live[at] if at >= 0 else carry_over(live[n], before[n], item) if stayed else item
        for n, (at, item) in enumerate(zip(known, after, strict=True))
    ]


def build_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Object]:
    """Return the operations (RFC 6902) that make `new` of `old`; none where they are equal."""
    return list(_compare(old, new, ""))


def _compare(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Object]:
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": f"{path}/{_escape(key)}"}
    for key, value in new.items():
        here = f"{path}/{_escape(key)}"
        if key not in old:
            yield {"op": "add", "path": here, "value": value}
        elif isinstance(value, dict) and isinstance(old[key], dict):
            yield from _compare(old[key], value, here)
        elif value != old[key]:
            yield {"op": "replace", "path": here, "value": value}


def _escape(key: str) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
