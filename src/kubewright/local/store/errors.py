"""What the store refuses, and why."""

from __future__ import annotations

from kubewright.api.errors import KubewrightError, Remedy


class StoreError(KubewrightError):
    """The root of the store's errors."""


class KeyExists(StoreError):
    """A key that was to be created is there already."""

    remedy = Remedy.REREAD


class KeyMissing(StoreError):
    """A key that was to be updated or deleted is not there."""

    remedy = Remedy.REREAD


class RevisionMismatch(StoreError):
    """The key changed since the revision that the writer expected."""

    remedy = Remedy.REREAD


class Compacted(StoreError):
    """The revision asked for is older than the history that is kept."""

    remedy = Remedy.REREAD

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is compacted: the oldest kept is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for has not been written yet."""

    remedy = Remedy.RETRY

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is not written yet: the newest is {current}")
        self.revision = revision
        self.current = current


class LogCorrupted(StoreError):
    """The write-ahead file is damaged before its end, so that acknowledged writes are lost."""


class LogInUse(StoreError):
    """Another process writes to the same write-ahead file."""


class LogWriteFailed(StoreError):
    """The write-ahead file did not take a write; the store did not change."""

    remedy = Remedy.RETRY
