"""The write-ahead file: what the store is after the process was killed.

The file begins with a magic line. Then come records, each framed as

    length   u32 little-endian, of the payload
    crc      u32 little-endian, CRC-32 of the payload
    check    u32 little-endian, CRC-32 of the eight bytes before it
    payload  kind u8, revision u64, create revision u64, key length u32, key, value

The check tells a record whose length is damaged from one that was cut short by a crash.
Kind 0 is a deletion, 1 a write, 2 the end of a snapshot (its revision is the store's).
A snapshot is a file that begins with one write for each live key and the record of kind 2;
it replaces the old file by rename, so that either of them is whole at any moment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kubewright.local.store.errors import LogCorrupted, LogInUse, LogWriteFailed
from kubewright.local.store.history import Version

_MAGIC = b"kubewright-wal-1\n"
_FRAME = struct.Struct("<II")
_CHECK = struct.Struct("<I")
_FRAME_SIZE = _FRAME.size + _CHECK.size
_HEAD = struct.Struct("<BQQI")
_DELETE, _WRITE, _SNAPSHOT = 0, 1, 2


class Loaded(msgspec.Struct):
    """What a write-ahead file held: live items, the newest revision, bytes cut from its end."""

    items: dict[str, Version] = {}
    revision: int = 0
    torn: int = 0


class WriteAheadLog:
    """An append-only file of writes.

    Each write is handed to the operating system before it is acknowledged: when the process dies,
    even by SIGKILL, nothing acknowledged is lost. When the machine loses power, what the kernel had
    not written yet may be lost, unless `fsync` is set, which makes each write wait for the disk.
    A write that fails (disk full) is taken back and raises; earlier ones are untouched.

    The file is rewritten as a snapshot once it has grown to `growth` times the last snapshot, and
    not below `minimum` bytes.
    """

    def __init__(
        self,
        path: Path,
        *,
        fsync: bool = False,
        growth: float = 4.0,
        minimum: int = 16 * 1024 * 1024,
    ) -> None:
        self._path = path
        self._fsync = fsync
        self._growth = growth
        self._minimum = minimum
        self._fd = -1
        self._lock_fd = -1
        self._size = 0
        self._rewrite_at = minimum

    @property
    def wants_snapshot(self) -> bool:
        """Tell whether the file has grown enough to be rewritten."""
        return self._size >= self._rewrite_at

    def load(self) -> Loaded:
        """Read the file, cut a torn end, and open it for appending.

        Raises:
            LogInUse: another process has it open.
            LogCorrupted: a record before the last one is damaged, or the file is none of ours.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock()
        try:
            return self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> Loaded:
        loaded = Loaded()
        good = 0
        if self._path.exists() and (data := self._path.read_bytes()):
            good = self._replay(data, loaded)
            loaded.torn = len(data) - good
        self._open(good)
        self._rewrite_at = max(self._minimum, int(good * self._growth))
        return loaded

    def append(self, key: str, version: Version) -> None:
        """Write one change.

        Raises:
            LogWriteFailed: the operating system did not take it; the file is as before.
        """
        record = _frame(key, version)
        try:
            self._write(record)
        except OSError as error:
            # Half a record must not stand between this write and the next.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
                os.lseek(self._fd, self._size, os.SEEK_SET)
            raise LogWriteFailed(f"{self._path}: {error.strerror}; nothing was written") from error
        self._size += len(record)

    def rewrite(self, revision: int, items: Iterable[tuple[str, Version]]) -> None:
        """Replace the file by a snapshot. A failure leaves the old file in use."""
        fresh = self._path.with_suffix(".new")
        try:
            size = _write_snapshot(fresh, revision, items)
            os.replace(fresh, self._path)
        except OSError:
            # The old file still holds everything: go on with it and try again after more growth.
            fresh.unlink(missing_ok=True)
            self._rewrite_at = int(self._size * 1.5)
            return
        os.close(self._fd)
        self._open(size)
        self._rewrite_at = max(self._minimum, int(size * self._growth))

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _lock(self) -> None:
        # The lock is on a file of its own, since a snapshot replaces the log; the kernel drops it
        # with the process.
        lock = self._path.with_suffix(".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise LogInUse(
                f"{self._path} is in use by another process: two servers on one folder would "
                "overwrite each other's objects; stop the other one or choose another folder"
            ) from None
        self._lock_fd = descriptor

    def _write(self, record: bytes) -> None:
        view = memoryview(record)
        while view:
            view = view[os.write(self._fd, view) :]
        if self._fsync:
            os.fsync(self._fd)

    def _open(self, size: int) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._fd, size)
        os.lseek(self._fd, size, os.SEEK_SET)
        self._size = size
        if size == 0:
            self._write(_MAGIC)
            self._size = len(_MAGIC)

    def _replay(self, data: bytes, loaded: Loaded) -> int:
        if not data.startswith(_MAGIC[: len(data)]):
            raise LogCorrupted(f"{self._path} is no write-ahead file of Kubewright")
        at = min(len(_MAGIC), len(data))
        if at < len(_MAGIC):
            return 0
        for end, payload in _records(data, at, self._path):
            _apply(payload, loaded)
            at = end
        return at


def _frame(key: str, version: Version, kind: int | None = None) -> bytes:
    name = key.encode()
    if kind is None:
        kind = _DELETE if version.value is None else _WRITE
    head = _HEAD.pack(kind, version.revision, version.create_revision, len(name))
    payload = b"".join((head, name, version.value or b""))
    frame = _FRAME.pack(len(payload), zlib.crc32(payload))
    return b"".join((frame, _CHECK.pack(zlib.crc32(frame)), payload))


def _records(data: bytes, at: int, path: Path) -> Iterator[tuple[int, memoryview]]:
    """Yield (end, payload) of each whole record; a torn one at the end of the file ends it."""
    view = memoryview(data)
    while at + _FRAME_SIZE <= len(data):
        length, crc = _FRAME.unpack_from(data, at)
        (check,) = _CHECK.unpack_from(data, at + _FRAME.size)
        start, end = at + _FRAME_SIZE, at + _FRAME_SIZE + length
        if zlib.crc32(view[at : at + _FRAME.size]) != check:
            # A file system may leave zeros where a power loss cut it.
            if not any(view[at:]):
                return
            raise _damaged(path, at, len(data))
        if end > len(data):
            return
        payload = view[start:end]
        if zlib.crc32(payload) != crc:
            if end == len(data):
                return
            raise _damaged(path, at, len(data))
        yield end, payload
        at = end


def _damaged(path: Path, at: int, size: int) -> LogCorrupted:
    return LogCorrupted(
        f"{path}: the record at byte {at} of {size} is damaged, so what follows cannot be trusted: "
        "restore the file from a copy, or move it away to start with an empty cluster"
    )


def _apply(payload: memoryview, loaded: Loaded) -> None:
    kind, revision, created, length = _HEAD.unpack_from(payload)
    key = str(payload[_HEAD.size : _HEAD.size + length], "utf-8")
    if kind == _WRITE:
        value = bytes(payload[_HEAD.size + length :])
        loaded.items[key] = Version(revision, created, value)
    elif kind == _DELETE:
        loaded.items.pop(key, None)
    loaded.revision = max(loaded.revision, revision)


def _write_snapshot(path: Path, revision: int, items: Iterable[tuple[str, Version]]) -> int:
    with path.open("wb") as file:
        file.write(_MAGIC)
        for key, version in items:
            file.write(_frame(key, version))
        file.write(_frame("", Version(revision, 0, None), _SNAPSHOT))
        file.flush()
        os.fsync(file.fileno())
        return file.tell()
