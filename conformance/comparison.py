"""What is equal: answers without the order that is left to chance, and where two differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubewright.api.resource import Object

ABSENT = "<absent>"

_UNORDERED_KEYS = ("managedFields", "causes")
_PROPAGATION_FINALIZERS = ("foregroundDeletion", "orphan")
_INVALID = " is invalid: ["


class Difference(NamedTuple):
    """One place where an answer is not the recorded one."""

    pointer: str
    recorded: Any
    found: Any


def canonical(value: Any, key: str = "") -> Any:
    """Return a value with those lists sorted that a server orders by the clock or by chance.

    They are managedFields, the causes of a refusal, and finalizers that came of a propagation
    policy. `key` is the name that the value has in its object.
    """
    if isinstance(value, dict):
        return {name: canonical(item, name.rsplit("/", 1)[-1]) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [canonical(item) for item in value]
    if key in _UNORDERED_KEYS or any(name in value for name in _PROPAGATION_FINALIZERS):
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    return items


def differences(recorded: Any, found: Any, at: str = "") -> Iterator[Difference]:
    """Yield where two values differ; 1 and 1.0 are equal, 1 and true are not."""
    if not _same_type(recorded, found):
        yield Difference(at or "/", recorded, found)
    elif isinstance(recorded, dict):
        for name in sorted(recorded.keys() | found.keys()):
            here = f"{at}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in found or name not in recorded:
                yield Difference(here, recorded.get(name, ABSENT), found.get(name, ABSENT))
            else:
                yield from differences(recorded[name], found[name], here)
    elif isinstance(recorded, list):
        if len(recorded) != len(found):
            yield Difference(f"{at}/#", len(recorded), len(found))
        for index, (one, other) in enumerate(zip(recorded, found, strict=False)):
            yield from differences(one, other, f"{at}/{index}")
    elif recorded != found:
        yield Difference(at or "/", recorded, found)


def sort_causes(status: Object) -> None:
    """Sort the causes of an Invalid answer in place, and the message that repeats them.

    kube-apiserver walks a schema's properties in random order.
    """
    causes = (status.get("details") or {}).get("causes") or []
    head, found, _ = status.get("message", "").partition(_INVALID)
    if found and causes:
        causes.sort(key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
        texts = dict.fromkeys(f"{cause.get('field')}: {cause.get('message')}" for cause in causes)
        status["message"] = f"{head}{_INVALID}{', '.join(texts)}]"


def _same_type(one: Any, other: Any) -> bool:
    if type(one) is type(other):
        return True
    return isinstance(one, (int, float)) and isinstance(other, (int, float))
