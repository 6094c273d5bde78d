"""The difference between two states of an object, for people to read. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from kubewright.api.resource import Object

_SERVERS_OWN = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_MASK = "***"


def diff_objects(before: Object | None, after: Object | None) -> str:
    """Write a unified diff of two states as YAML; empty where nothing differs.

    Status and what the API server keeps for itself are left out. The values of a Secret are masked;
    one that differs shows as before and after, as `kubectl diff` does it.

    Arguments:
        before: what is there, or None when the object does not exist.
        after: what will be there, or None when the object goes.
    """
    known = after if after is not None else before
    if known is None:
        return ""
    if known.get("kind") == "Secret" and known.get("apiVersion") == "v1":
        before, after = mask_secret(before, after)
    metadata = known.get("metadata") or {}
    place = "/".join(filter(None, (known.get("kind"), metadata.get("namespace"))))
    name = f"{place}/{metadata.get('name')}"
    lines = difflib.unified_diff(
        _lines(before),
        _lines(after),
        "/dev/null" if before is None else f"live/{name}",
        "/dev/null" if after is None else f"desired/{name}",
        lineterm="",
    )
    return "\n".join(lines)


def mask_secret(before: Object | None, after: Object | None) -> tuple[Object | None, Object | None]:
    """Return copies of two states of a Secret whose values tell only whether they differ."""
    masked: list[Object | None] = []
    for state, other, word in ((before, after, "before"), (after, before, "after")):
        if state is None:
            masked.append(None)
            continue
        copy = dict(state)
        for field in ("data", "stringData"):
            values, others = state.get(field), (other or {}).get(field) or {}
            if isinstance(values, Mapping):
                copy[field] = {
                    key: f"{_MASK} ({word})" if others.get(key, value) != value else _MASK
                    for key, value in values.items()
                }
        annotations = (state.get("metadata") or {}).get("annotations") or {}
        if _LAST_APPLIED in annotations:
            hidden = {**annotations, _LAST_APPLIED: _MASK}
            copy["metadata"] = {**state["metadata"], "annotations": hidden}
        masked.append(copy)
    return masked[0], masked[1]


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps an object whole, a Secret's values included."""


def _lines(obj: Object | None) -> list[str]:
    if obj is None:
        return []
    import yaml  # here and not above: only people who ask for a diff wait for it

    shown: dict[str, Any] = {key: value for key, value in obj.items() if key != "status"}
    metadata = obj.get("metadata") or {}
    shown["metadata"] = {k: v for k, v in metadata.items() if k not in _SERVERS_OWN}
    text: str = yaml.safe_dump(shown, allow_unicode=True, width=1000)
    return text.splitlines()
