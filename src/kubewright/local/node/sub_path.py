"""A part of a volume, found without leaving the volume by a link (CVE-2017-1002101)."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

MAX_LINKS = 40


class LeavesVolume(Exception):
    """A link in the volume leads out of it, or round in circles."""


def prepare_sub_path(root: Path, part: str) -> PurePosixPath:
    """Return where a part of a volume is below `root`, with no links on the way.

    What is not there is made as folders with the rights of the volume's own.

    Raises:
        LeavesVolume: a link leads out.
        OSError: a folder cannot be made.
    """
    pending = [word for word in reversed(part.split("/")) if word not in ("", ".")]
    resolved: list[str] = []
    links = 0
    while pending:
        word = pending.pop()
        if word == "..":
            if not resolved:
                raise LeavesVolume(part)
            resolved.pop()
            continue
        path = root.joinpath(*resolved, word)
        if path.is_symlink():
            links += 1
            target = os.readlink(path)
            if target.startswith("/") or links > MAX_LINKS:
                raise LeavesVolume(part)
            pending += [word for word in reversed(target.split("/")) if word not in ("", ".")]
            continue
        resolved.append(word)
        if not path.exists():
            _make_folder(path, root)
    return PurePosixPath(*resolved)


def _make_folder(path: Path, root: Path) -> None:
    rights = root.stat()
    path.mkdir(exist_ok=True)
    path.chmod(stat.S_IMODE(rights.st_mode))
    if os.geteuid() == 0 and rights.st_mode & stat.S_ISGID:
        os.chown(path, -1, rights.st_gid)
