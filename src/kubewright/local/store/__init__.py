"""A multi-version key-value store with one revision counter, as etcd is one."""

from kubewright.local.store.errors import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyMissing,
    LogCorrupted,
    LogInUse,
    LogWriteFailed,
    RevisionMismatch,
    StoreError,
)
from kubewright.local.store.history import Change, Version
from kubewright.local.store.versioned import Item, Range, Retention, VersionedStore
from kubewright.local.store.wal import WriteAheadLog

__all__ = [
    "Change",
    "Compacted",
    "FutureRevision",
    "Item",
    "KeyExists",
    "KeyMissing",
    "LogCorrupted",
    "LogInUse",
    "LogWriteFailed",
    "Range",
    "Retention",
    "RevisionMismatch",
    "StoreError",
    "Version",
    "VersionedStore",
    "WriteAheadLog",
]
