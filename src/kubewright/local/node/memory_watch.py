"""Watching the memory of a container's processes, where no control group may limit it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

WATCH_SECONDS = 0.2
_FIELDS = ("RssAnon:", "RssShmem:")


def read_memory(pid: int, *, proc: Path = Path("/proc")) -> int:
    """Return the bytes that a process and all below it hold and cannot give back: no file pages.

    What they share is counted for each. A process that ends meanwhile counts nothing.
    """
    return sum(_read_own(proc / str(each)) for each in list_tree(pid, proc=proc))


def list_tree(pid: int, *, proc: Path = Path("/proc")) -> Iterator[int]:
    """List a process and all below it; orphans of a container are its first process' children."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in (proc / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from list_tree(int(child), proc=proc)


def _read_own(folder: Path) -> int:
    with contextlib.suppress(OSError):
        lines = map(str.split, (folder / "status").read_text().splitlines())
        return sum(int(words[1]) * 1024 for words in lines if words[:1] and words[0] in _FIELDS)
    return 0
