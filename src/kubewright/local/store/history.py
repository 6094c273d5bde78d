"""Versions of keys and the ordered record of changes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubewright.local.store.errors import Compacted


class Version(msgspec.Struct, frozen=True):
    """What a key held from `revision` on; `value` is None where the key was deleted."""

    revision: int
    create_revision: int
    value: bytes | None


class Change(msgspec.Struct):
    """One write. `previous` is what the key held before, None for a creation.

    `moment` is the monotonic time of the write in seconds; compaction by age reads it.
    """

    key: str
    version: Version
    previous: Version | None
    moment: float

    @property
    def revision(self) -> int:
        """The revision that the write made."""
        return self.version.revision

    @property
    def size(self) -> int:
        """Bytes that the history keeps alive for this change."""
        return len(self.version.value or b"") + len(self.key) + 200


class History:
    """The changes since the last compaction, oldest first; one for each revision.

    Every revision is exactly one change, so that a revision's place is a subtraction.
    """

    def __init__(self, compacted: int) -> None:
        self._changes: list[Change] = []
        self._head = 0
        self._size = 0
        self._compacted = compacted

    @property
    def compacted(self) -> int:
        """The newest revision whose change is gone; reads at this revision still succeed."""
        return self._compacted

    @property
    def size(self) -> int:
        """Bytes that the kept changes take, roughly."""
        return self._size

    def __len__(self) -> int:
        return len(self._changes) - self._head

    def append(self, change: Change) -> None:
        """Add the newest change."""
        self._changes.append(change)
        self._size += change.size

    def oldest(self) -> Change | None:
        """Return the oldest kept change."""
        return self._changes[self._head] if len(self) else None

    def pop_oldest(self) -> Change:
        """Forget the oldest change and return it."""
        change = self._changes[self._head]
        self._head += 1
        self._size -= change.size
        self._compacted = change.revision
        # Cutting the list once half of it is forgotten keeps a pop at constant cost.
        if self._head * 2 > len(self._changes) and self._head > 64:
            del self._changes[: self._head]
            self._head = 0
        return change

    def after(self, revision: int) -> Iterator[Change]:
        """Iterate over the changes later than a revision.

        Raises:
            Compacted: a change in between is no longer kept.
        """
        if revision < self._compacted:
            raise Compacted(revision, self._compacted)
        start = self._head + revision - self._compacted
        return iter(self._changes[start:])
