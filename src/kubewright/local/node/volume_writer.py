"""Writing the files of a volume, and giving a volume to the pod's fsGroup."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

DEFAULT_MODE = 0o644
WRITABLE, READABLE, FOLDER = 0o660, 0o440, 0o2110
"""What a group may do with files that may be written, or not, and what more with folders."""


class VolumeFile(msgspec.Struct, frozen=True):
    """A file to write into a volume. `uid` is its owner, where that is not root."""

    content: bytes
    mode: int = DEFAULT_MODE
    uid: int | None = None


def write_files(
    folder: Path, files: Mapping[str, VolumeFile], now: datetime, group: int | None
) -> None:
    """Write a volume's files so that readers see all of the old or all of the new ones.

    Files are links into a dated folder that `..data` points at, which is what programs that watch
    for changes know. `group` is the pod's fsGroup. An owner that cannot be given is left out.
    """
    if not folder.exists():
        make_empty(folder)
    if read_files(folder) == {path: file.content for path, file in files.items()}:
        return
    dated = folder / now.strftime("..%Y_%m_%d_%H_%M_%S.%f")
    dated.mkdir()
    for path, file in files.items():
        target = dated / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
        if file.uid is not None:
            with contextlib.suppress(PermissionError):
                os.chown(target, file.uid, -1)
    if group is not None:
        give_group(dated, group, read_only=True)
        _give(folder, group, read_only=True)
    _switch(folder, dated)
    _link_tops(folder, {path.split("/")[0] for path in files})


def _switch(folder: Path, dated: Path) -> None:
    """Let `..data` point to a dated folder in one step; remove the one before."""
    link, data = folder / "..data_tmp", folder / "..data"
    old = folder / os.readlink(data) if data.is_symlink() else None
    link.unlink(missing_ok=True)
    link.symlink_to(dated.name)
    link.replace(data)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _link_tops(folder: Path, tops: set[str]) -> None:
    for name in tops:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name not in tops and not entry.name.startswith(".."):
            entry.unlink()


def read_files(folder: Path) -> dict[str, bytes] | None:
    """Read the files that a volume has; None if it was not written yet."""
    data = folder / "..data"
    if not data.exists():
        return None
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file()
    }


def make_empty(folder: Path) -> None:
    """Make the folder of an emptyDir: open to all, as the kubelet makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)


def give_group(
    folder: Path, group: int, *, read_only: bool = False, only_on_mismatch: bool = False
) -> None:
    """Give a volume to a group, with all that is in it, as the kubelet does for fsGroup.

    `only_on_mismatch` is fsGroupChangePolicy OnRootMismatch: a folder that has the group and its
    rights counts for all that is in it. The folder itself comes last, so that a run that is cut
    short is repeated.
    """
    if only_on_mismatch and _has_group(folder, group, read_only=read_only):
        return
    for path in _walk(folder):
        _give(path, group, read_only=read_only)


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder, topdown=False):
        yield from (Path(parent, name) for name in files)
        yield from (Path(parent, name) for name in folders if Path(parent, name).is_symlink())
        yield Path(parent)


def _give(path: Path, group: int, *, read_only: bool) -> None:
    # What vanishes meanwhile needs no owner; a file system that has no owners keeps its own.
    with contextlib.suppress(FileNotFoundError, PermissionError):
        os.chown(path, -1, group, follow_symlinks=False)
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return
        rights = READABLE if read_only else WRITABLE
        path.chmod(stat.S_IMODE(mode) | rights | (FOLDER if stat.S_ISDIR(mode) else 0))


def _has_group(folder: Path, group: int, *, read_only: bool) -> bool:
    found = folder.stat()
    wanted = (READABLE if read_only else WRITABLE) | FOLDER
    return found.st_gid == group and stat.S_IMODE(found.st_mode) & wanted == wanted
