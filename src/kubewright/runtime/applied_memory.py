"""What applies led to, remembered to save requests; nothing depends on it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from kubewright.api.errors import Invalid
from kubewright.api.resource import Object
from kubewright.runtime.child_kind import ChildKey, child_key
from kubewright.runtime.owned_fields import find_entry, is_applied, project

_REFUSAL_SECONDS = 900.0
"""How long a refusal is believed: quotas, policies and schemas change without the child."""


_RECREATIONS = 3
_RECREATION_SECONDS = 600.0
"""More recreations in that time are a loop: what is desired differs each time."""


class _Refusal(msgspec.Struct, frozen=True):
    digest: bytes
    error: Invalid
    until: float


class _Owned(msgspec.Struct):
    applied: dict[ChildKey, bytes] = {}
    refused: dict[ChildKey, _Refusal] = {}
    recreated: dict[ChildKey, list[float]] = {}


class AppliedMemory:
    """Remember per owner what the server made of each desired child.

    A value that the server rewrites in a way that the comparison does not know is applied once, not
    at each reconcile; a child that it refuses as invalid is not sent again unchanged.
    """

    def __init__(self) -> None:
        self._owners: dict[str, _Owned] = {}

    def remember(self, owner_uid: str, desired: Object, live: Object, manager: str) -> None:
        """Note what the server made of a desired object, if the comparison does not know it."""
        key, owned = child_key(desired), self._owners.get(owner_uid)
        if owned is not None:
            owned.refused.pop(key, None)
        if not is_applied(desired, live, manager):
            owned = self._owners.setdefault(owner_uid, _Owned())
            owned.applied[key] = _state(desired, live, manager)

    def knows(self, owner_uid: str, desired: Object, live: Object, manager: str) -> bool:
        """Tell whether this live state is what applying this desired object led to."""
        owned = self._owners.get(owner_uid)
        digest = owned.applied.get(child_key(desired)) if owned else None
        return digest is not None and digest == _state(desired, live, manager)

    def refuse(
        self, owner_uid: str, desired: Object, live: Object | None, error: Invalid, now: float
    ) -> None:
        """Note that the server refused a desired object as a change of a live one."""
        owned = self._owners.setdefault(owner_uid, _Owned())
        refusal = _Refusal(_attempt(desired, live), error, now + _REFUSAL_SECONDS)
        owned.refused[child_key(desired)] = refusal

    def refusal(
        self, owner_uid: str, desired: Object, live: Object | None, now: float
    ) -> Invalid | None:
        """Return how the server answered the same attempt a short while ago, if it refused it."""
        owned = self._owners.get(owner_uid)
        refusal = owned.refused.get(child_key(desired)) if owned else None
        if refusal is None or now >= refusal.until or refusal.digest != _attempt(desired, live):
            return None
        return refusal.error

    def recreate(self, owner_uid: str, desired: Object, now: float) -> bool:
        """Note that a child is to be made anew; False when that happened too often lately."""
        owned = self._owners.setdefault(owner_uid, _Owned())
        key = child_key(desired)
        since = now - _RECREATION_SECONDS
        times = [time for time in owned.recreated.get(key, ()) if time > since]
        allowed = len(times) < _RECREATIONS
        owned.recreated[key] = [*times, now] if allowed else times
        return allowed

    def forget(self, owner_uid: str) -> None:
        """Forget an owner that is gone."""
        self._owners.pop(owner_uid, None)


def _state(desired: Object, live: Object, manager: str) -> bytes:
    entry = find_entry(live, manager) or {}
    uid = (live.get("metadata") or {}).get("uid")
    return _digest([uid, desired, project(desired, live), entry.get("fieldsV1")])


def _attempt(desired: Object, live: Object | None) -> bytes:
    metadata = (live or {}).get("metadata") or {}
    return _digest([desired, metadata.get("uid"), metadata.get("resourceVersion")])


def _digest(parts: Any) -> bytes:
    return blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=16).digest()
