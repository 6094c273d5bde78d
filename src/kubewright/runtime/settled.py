"""What was found as it should be: a state in which there is nothing to do, remembered to save work.

An operator's own writes come back to it as events. They show the state that it left, and a
reconcile of that very state would compute the same answers again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from kubewright.api.resource import Object
from kubewright.cache.entry import Entry

Version: TypeAlias = tuple[str, str]
"""The UID and the resource version of an object: no two states of objects have the same."""

BELIEVED_SECONDS = 600.0


class SettledState(msgspec.Struct, frozen=True):
    """The versions of an object and of all that it owns, at which a reconcile had nothing left.

    It is believed until a time in the clock's monotonic seconds: a function that should be pure may
    not be, and what it says is asked for again now and then.
    """

    owner: Version
    children: frozenset[Version]
    until: float

    def is_state_of(self, owner: Entry, children: Iterable[Entry], now: float) -> bool:
        """Tell whether the stores show this very state. A "no" costs a reconcile, never more."""
        if now >= self.until or self.owner != (owner.meta.uid, owner.meta.resource_version):
            return False
        found = {(child.meta.uid, child.meta.resource_version) for child in children}
        return found == self.children


def build_settled_state(
    owner: Object, written: Object | None, children: Iterable[Object], now: float
) -> SettledState | None:
    """Build the state that a reconcile left, or None where somebody else had a hand in it.

    `owner` is the object that was reconciled, `written` what the server answered to the write of
    its status. Whoever changed the object between the two is in the answer, and was not heard.
    """
    if written is not None and _without_status(owner) != _without_status(written):
        return None
    return SettledState(
        _version_of(written or owner),
        frozenset(_version_of(child) for child in children),
        now + BELIEVED_SECONDS,
    )


def _version_of(obj: Object) -> Version:
    metadata = obj["metadata"]
    return metadata.get("uid") or "", metadata.get("resourceVersion") or ""


def _without_status(obj: Object) -> Object:
    metadata = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in ("managedFields", "resourceVersion")
    }
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}
