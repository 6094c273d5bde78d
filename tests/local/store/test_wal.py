from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kubewright.local.store import (
    LogCorrupted,
    LogInUse,
    LogWriteFailed,
    VersionedStore,
    WriteAheadLog,
)


def open_store(path: Path, minimum: int = 1 << 24) -> VersionedStore:
    return VersionedStore(log=WriteAheadLog(path, minimum=minimum))


def values(store: VersionedStore) -> dict[str, bytes]:
    return {item.key: item.value for item in store.list("").items}


def fill(store: VersionedStore, count: int) -> None:
    for number in range(count):
        store.create(f"/{number:03}", str(number).encode())


def test_a_second_start_has_all_that_was_written(tmp_path: Path) -> None:
    store = open_store(tmp_path / "wal")
    first = store.create("/a", b"1")
    store.update("/a", b"2", first.revision)
    gone = store.create("/b", b"1")
    store.delete("/b", gone.revision)
    store.close()
    again = open_store(tmp_path / "wal")
    assert values(again) == {"/a": b"2"}
    assert again.revision == store.revision
    version = again.get("/a")
    assert version is not None
    assert (version.create_revision, version.revision) == (2, 3)
    again.close()


def test_the_revision_of_a_last_deletion_is_not_used_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "wal")
    last = store.delete("/a", store.create("/a", b"1").revision)
    store.close()
    again = open_store(tmp_path / "wal")
    assert again.create("/a", b"2").revision == last.revision + 1
    again.close()


def test_a_torn_end_is_cut_wherever_it_tears(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    store = open_store(path)
    fill(store, 2)
    whole = path.stat().st_size
    store.create("/last", b"x" * 50)
    store.close()
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        torn = open_store(path)
        assert set(values(torn)) == {"/000", "/001"}
        torn.create("/next", b"")
        torn.close()
        again = open_store(path)
        assert set(values(again)) == {"/000", "/001", "/next"}
        again.close()


def test_zeros_at_the_end_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    store = open_store(path)
    fill(store, 2)
    store.close()
    with path.open("ab") as file:
        file.write(b"\0" * 100)
    again = open_store(path)
    assert len(again) == 2
    again.close()


def test_damage_before_the_end_is_refused_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    store = open_store(path)
    fill(store, 5)
    store.close()
    data = bytearray(path.read_bytes())
    begin = len(b"kubewright-wal-1\n")
    for position in range(begin, begin + 30):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(LogCorrupted, match=f"byte {begin} of"):
            open_store(path)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    path.write_bytes(b"SQLite format 3\0 and more")
    with pytest.raises(LogCorrupted, match="no write-ahead file"):
        open_store(path)


def test_a_grown_file_becomes_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    store = open_store(path, minimum=4096)
    version = store.create("/a", b"x" * 100)
    for _ in range(500):
        version = store.update("/a", b"x" * 100, version.revision)
    assert path.stat().st_size < 8192
    store.create("/b", b"after")
    store.close()
    again = open_store(path)
    assert values(again) == {"/a": b"x" * 100, "/b": b"after"}
    assert again.revision == store.revision
    again.close()


def test_a_full_disk_fails_the_write_and_keeps_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "wal"
    store = open_store(path)
    store.create("/a", b"1")
    write = os.write

    def half_then_full(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(descriptor, bytes(data[: len(data) // 2]))

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(LogWriteFailed, match="No space left"):
        store.create("/b", b"2")
    monkeypatch.setattr(os, "write", write)
    assert values(store) == {"/a": b"1"}
    store.create("/c", b"3")
    store.close()
    again = open_store(path)
    assert values(again) == {"/a": b"1", "/c": b"3"}
    again.close()


WRITER = """
import sys
from pathlib import Path
from kubewright.local.store import VersionedStore, WriteAheadLog

store = VersionedStore(log=WriteAheadLog(Path(sys.argv[1])))
number = 0
while True:
    store.create(f"/{number:06}", b"x" * 200)
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    number += 1
"""


@pytest.mark.processes
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline() for _ in range(300)]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += writer.stdout.readlines()
    # The last line may have been cut by the kill; what stands whole was acknowledged.
    numbers = [int(line) for line in acknowledged if line.endswith("\n")]
    store = open_store(path)
    found = values(store)
    assert {f"/{number:06}" for number in numbers} <= found.keys()
    assert len(found) - len(numbers) <= 1
    store.close()


def test_a_second_server_on_one_file_is_refused(tmp_path: Path) -> None:
    """Two writers would silently overwrite each other's objects."""
    first = open_store(tmp_path / "wal")
    first.create("/a", b"1")

    with pytest.raises(LogInUse, match="in use by another process"):
        open_store(tmp_path / "wal")

    first.close()
    second = open_store(tmp_path / "wal")
    assert values(second) == {"/a": b"1"}
    second.close()
