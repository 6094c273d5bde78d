"""What was last seen, in words for a failed test."""

from __future__ import annotations

from typing import Any

from kubewright.api.resource import Object
from kubewright.client.objects import ObjectList

_LONGEST = 200
_MARGIN = "    "


def describe_state(state: object) -> str:
    """Write a state for people: objects as YAML without managed fields, others as they print.

    It is cut after 200 lines, so that one failure does not bury the others.
    """
    lines = _write(state).rstrip("\n").splitlines() or ["(nothing)"]
    if len(lines) > _LONGEST:
        lines = [*lines[:_LONGEST], f"… and {len(lines) - _LONGEST} lines more"]
    return "\n".join(_MARGIN + line for line in lines)


def describe_error(error: BaseException) -> str:
    """Write an error in one paragraph; an assertion as pytest explained it."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _write(state: object) -> str:
    import yaml  # here and not above: only failures are written

    match state:
        case ObjectList() | list() | tuple():
            if not state:
                return "(an empty list)"
            if all(_is_object(item) for item in state):
                return "---\n".join(_write(item) for item in state)
        case _ if _is_object(state):
            return str(yaml.safe_dump(_plain(state), sort_keys=False, allow_unicode=True))
    return repr(state)


def _is_object(state: object) -> bool:
    return isinstance(state, dict) or hasattr(state, "to_object")


def _plain(state: Any) -> Object:
    obj: Object = state if isinstance(state, dict) else state.to_object()
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


def name_of(obj: Object) -> str:
    """Return what messages call an object: `Kind namespace/name`."""
    metadata = obj["metadata"]
    key = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return f"{obj['kind']} {key}"
