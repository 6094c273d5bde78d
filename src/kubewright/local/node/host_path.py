"""hostPath volumes: what their type asks for, checked and made as the kubelet does."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from kubewright.api.errors import KubewrightError
from kubewright.api.resource import Object


class MountError(KubewrightError):
    """A volume cannot be set up: FailedMount."""


_KINDS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def check_host_path(source: Object) -> Path:
    """Return the path of a hostPath volume; make it where its type says so.

    Raises:
        MountError: the path is not what its type says, or cannot be made.
    """
    path, kind = Path(source["path"]), source.get("type") or ""
    try:
        _make(path, kind)
    except OSError as error:
        what = (error.strerror or "").lower()
        action = "mkdir" if kind != "FileOrCreate" else "open"
        raise MountError(f"{action} {error.filename}: {what}") from error
    if kind:
        _check(path, kind.removesuffix("OrCreate"))
    return path


def _make(path: Path, kind: str) -> None:
    if path.exists():
        return
    if kind in ("DirectoryOrCreate", ""):
        # With no type the runtime makes the folder, as it does for a container's mount.
        path.mkdir(parents=True, mode=0o755)
    elif kind == "FileOrCreate":
        path.touch()
        path.chmod(0o644)


def _check(path: Path, kind: str) -> None:
    if kind not in _KINDS:
        raise MountError(f"{kind} is an invalid volume type")
    check, word = _KINDS[kind]
    if not path.exists():
        raise MountError(
            f"hostPath type check failed, {path} is not a {word}, unable to determine its type: "
            f'path "{path}" does not exist'
        )
    mode = path.stat().st_mode
    if not check(mode):
        found = next((name for name, (is_kind, _) in _KINDS.items() if is_kind(mode)), "Other")
        raise MountError(f"hostPath type check failed: {path} is not a {word}, it's a {found}")
