"""The multi-version store: what etcd is to a kube-apiserver, in memory."""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import msgspec

from kubewright.local.store.errors import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyMissing,
    RevisionMismatch,
)
from kubewright.local.store.history import Change, History, Version
from kubewright.local.store.wal import WriteAheadLog

Listener = Callable[[Change], None]

_LAST = "\U0010ffff"  # sorts after every character that a key has
logger = logging.getLogger(__name__)


class Retention(msgspec.Struct, frozen=True):
    """How much history the store keeps for watches and for reads of the past.

    The oldest changes are forgotten beyond `changes` or `size` (bytes), or once they are older than
    `age` and there are more than `at_least` of them.
    """

    changes: int = 20_000
    size: int = 64 * 1024 * 1024
    age: timedelta = timedelta(minutes=5)
    at_least: int = 1_000


class Item(msgspec.Struct, frozen=True):
    """A key with the version it had at the revision of the read."""

    key: str
    version: Version

    @property
    def value(self) -> bytes:
        """The bytes that the key held."""
        return self.version.value or b""


class Range(msgspec.Struct, frozen=True):
    """The answer of a list: items in key order, the revision read, how many items follow."""

    items: list[Item]
    revision: int
    remaining: int


class VersionedStore:
    """Keys with versions, under one revision counter.

    Each write raises the revision by one and is one change of the history. Keys are listed in the
    order of their code points. Reads see the past as far back as `Retention` keeps it. All methods
    are synchronous and cheap; the store belongs to one event loop and is not thread-safe.

    With a write-ahead log a write is on its way to the disk before the store shows it: when the
    process is killed, nothing that was acknowledged is lost. See `WriteAheadLog` for power loss.
    """

    def __init__(
        self,
        *,
        log: WriteAheadLog | None = None,
        retention: Retention | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._retention = retention or Retention()
        self._monotonic = monotonic
        self._versions: dict[str, list[Version]] = {}
        self._keys: list[str] = []
        self._listeners: list[Listener] = []
        self._live = 0
        self._log = log
        self._revision = self._load(log) if log else 1
        self._history = History(self._revision)

    def _load(self, log: WriteAheadLog) -> int:
        loaded = log.load()
        for key, version in loaded.items.items():
            self._versions[key] = [version]
        self._keys = sorted(self._versions)
        self._live = len(self._keys)
        return max(loaded.revision, 1)

    @property
    def revision(self) -> int:
        """The revision of the newest write."""
        return self._revision

    @property
    def next_revision(self) -> int:
        """The revision that the next write will have, so that it may be part of the value."""
        return self._revision + 1

    @property
    def compacted_revision(self) -> int:
        """The oldest revision that reads and watches may start from."""
        return self._history.compacted

    def __len__(self) -> int:
        return self._live

    def get(self, key: str, revision: int | None = None) -> Version | None:
        """Return the version of a key, now or at an earlier revision; None where it was not there.

        Raises:
            Compacted: the revision is older than the history.
            FutureRevision: the revision has not been written yet.
        """
        versions = self._versions.get(key)
        if revision is None:
            version = versions[-1] if versions else None
        else:
            self._check(revision)
            version = self._at(versions, revision) if versions else None
        return version if version is not None and version.value is not None else None

    def list(
        self,
        prefix: str,
        *,
        revision: int | None = None,
        start: str | None = None,
        limit: int | None = None,
    ) -> Range:
        """Return the items whose keys begin with `prefix`, in key order.

        `start` is the first key to return (inclusive), `limit` the greatest number of items;
        `remaining` counts those after them.

        Raises:
            Compacted: the revision is older than the history.
            FutureRevision: the revision has not been written yet.
        """
        if revision is not None:
            self._check(revision)
        if revision == self._revision:
            revision = None
        keys = self._range(prefix, start)
        # Without tombstones every key counts: what follows a page need not be looked at.
        counts = revision is None and len(self._keys) == self._live
        items: list[Item] = []
        remaining = 0
        for index, key in enumerate(keys):
            if limit and counts and len(items) == limit:
                remaining = len(keys) - index
                break
            versions = self._versions[key]
            version = versions[-1] if revision is None else self._at(versions, revision)
            if version is None or version.value is None:
                continue
            if limit and len(items) >= limit:
                remaining += 1
            else:
                items.append(Item(key, version))
        return Range(items, self._revision if revision is None else revision, remaining)

    def scan(self, prefix: str) -> Iterator[Item]:
        """Iterate over the current items under a prefix. The store must not change meanwhile."""
        for key in self._range(prefix, None):
            version = self._versions[key][-1]
            if version.value is not None:
                yield Item(key, version)

    def create(self, key: str, value: bytes) -> Version:
        """Write a new key.

        Raises:
            KeyExists: the key is there.
            LogWriteFailed: the disk did not take the write.
        """
        previous = self.get(key)
        if previous is not None:
            raise KeyExists(key)
        return self._write(key, value, None)

    def update(self, key: str, value: bytes, expected_revision: int) -> Version:
        """Replace the value of a key that still is at the revision expected.

        Raises:
            KeyMissing: the key is not there.
            RevisionMismatch: it was written since.
            LogWriteFailed: the disk did not take the write.
        """
        return self._write(key, value, self._expect(key, expected_revision))

    def delete(self, key: str, expected_revision: int) -> Version:
        """Delete a key that still is at the revision expected; returns the tombstone.

        Raises:
            KeyMissing: the key is not there.
            RevisionMismatch: it was written since.
            LogWriteFailed: the disk did not take the write.
        """
        return self._write(key, None, self._expect(key, expected_revision))

    def changes_after(self, revision: int) -> Iterator[Change]:
        """Iterate over the changes later than a revision.

        Raises:
            Compacted: some of them are no longer kept.
        """
        return self._history.after(revision)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with each change, in order, as part of the write.

        A listener must not block and must not write. Returns what ends the subscription, which
        may be called more than once.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def compact(self, revision: int) -> None:
        """Forget the history up to and including a revision; current values stay."""
        while (oldest := self._history.oldest()) and oldest.revision <= revision:
            self._forget(self._history.pop_oldest())

    def close(self) -> None:
        """Close the write-ahead log."""
        if self._log:
            self._log.close()

    def _check(self, revision: int) -> None:
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision < self._history.compacted:
            raise Compacted(revision, self._history.compacted)

    @staticmethod
    def _at(versions: Sequence[Version], revision: int) -> Version | None:
        for version in reversed(versions):
            if version.revision <= revision:
                return version
        return None

    def _range(self, prefix: str, start: str | None) -> Sequence[str]:
        low = bisect.bisect_left(self._keys, max(prefix, start or ""))
        high = bisect.bisect_left(self._keys, prefix + _LAST, low)
        return self._keys[low:high]

    def _expect(self, key: str, expected_revision: int) -> Version:
        current = self.get(key)
        if current is None:
            raise KeyMissing(key)
        if current.revision != expected_revision:
            raise RevisionMismatch(f"{key} is at {current.revision}, not {expected_revision}")
        return current

    def _write(self, key: str, value: bytes | None, previous: Version | None) -> Version:
        revision = self._revision + 1
        created = previous.create_revision if previous else revision
        version = Version(revision, created, value)
        if self._log:
            self._log.append(key, version)
        self._revision = revision
        versions = self._versions.get(key)
        if versions is None:
            self._versions[key] = [version]
            bisect.insort(self._keys, key)
        else:
            versions.append(version)
        self._live += (value is not None) - (previous is not None)
        change = Change(key, version, previous, self._monotonic())
        self._history.append(change)
        self._trim(change.moment)
        for listener in tuple(self._listeners):
            listener(change)
        if self._log and self._log.wants_snapshot:
            self._log.rewrite(revision, ((item.key, item.version) for item in self.scan("")))
        return version

    def _trim(self, now: float) -> None:
        kept = self._retention
        age = kept.age.total_seconds()
        while (oldest := self._history.oldest()) is not None:
            count = len(self._history)
            too_old = now - oldest.moment > age and count > kept.at_least
            if count <= kept.changes and self._history.size <= kept.size and not too_old:
                return
            self._forget(self._history.pop_oldest())

    def _forget(self, change: Change) -> None:
        """Drop the versions that no read may ask for once the change is compacted."""
        versions = self._versions.get(change.key)
        if versions is None:
            return
        while len(versions) > 1 and versions[1].revision <= change.revision:
            del versions[0]
        if len(versions) == 1 and versions[0].value is None:
            del self._versions[change.key]
            del self._keys[bisect.bisect_left(self._keys, change.key)]
