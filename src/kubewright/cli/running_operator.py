"""The operators that run on this machine: where each tells what it did."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def default_folder() -> Path:
    """Return the folder of this user's running operators (XDG base directory specification)."""
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "kubewright" / "run"


@contextmanager
def announce(address: str, folder: Path | None = None) -> Iterator[None]:
    """Let others on this machine find the address of this process, for the time of a block.

    The file is locked: the kernel drops the lock with the process, so that one that was killed is
    never taken for a running one. Where no file can be written, as in a container whose file system
    is read-only, nobody finds it by itself, and the operator runs all the same.
    """
    folder = folder or default_folder()
    path = folder / str(os.getpid())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = path.open("w")
    except OSError:
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(address)
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def find_addresses(folder: Path | None = None) -> list[str]:
    """Return the addresses of the processes that run; forget those that do not."""
    folder = folder or default_folder()
    found = []
    for path in sorted(folder.glob("*")):
        with suppress(FileNotFoundError), path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(file.read())
            else:
                path.unlink(missing_ok=True)
    return [address for address in found if address]
