"""Unpacking the layers of an image into a root file system, without leaving it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kubewright.local.node.image.image import ImageError

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
MAX_LINKS = 40
_ZSTD = b"\x28\xb5\x2f\xfd"


def unpack_layer(file: IO[bytes], root: Path) -> None:
    """Unpack a layer over those below it. Owners are kept where this process may give them.

    Links in the image lead where they would from inside; nothing is written beside `root`. Devices
    are left out: a container has those of its runtime.

    Raises:
        ImageError: the layer cannot be read, or has links in circles.
    """
    with _decompress(file) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|*") as tar:
                for member in tar:
                    _unpack(tar, member, root)
        except (tarfile.TarError, OSError, EOFError) as error:
            raise ImageError("ErrImagePull", f"a layer cannot be unpacked: {error}") from error


@contextlib.contextmanager
def _decompress(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Give the layer to `zstd` where it is compressed so; tarfile knows the other formats."""
    start = file.read(len(_ZSTD))
    file.seek(0)
    if start != _ZSTD:
        yield file
        return
    program = shutil.which("zstd")
    if program is None:
        raise ImageError("ErrImagePull", "a layer is compressed by zstd: install the package zstd")
    with tempfile.TemporaryFile() as packed, tempfile.TemporaryFile() as plain:
        shutil.copyfileobj(file, packed)
        packed.seek(0)
        done = subprocess.run([program, "-dc"], stdin=packed, stdout=plain, check=False)
        if done.returncode:
            raise ImageError("ErrImagePull", f"zstd ended with {done.returncode}")
        plain.seek(0)
        yield plain


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    folder, _, name = member.name.strip("/").rpartition("/")
    if name in ("", ".", ".."):
        if member.isdir():
            root.chmod(member.mode & 0o7777)
        return
    parent = resolve_inside(root, folder)
    parent.mkdir(parents=True, exist_ok=True)
    if name == OPAQUE:
        for entry in list(parent.iterdir()):
            _remove(entry)
        return
    if name.startswith(WHITEOUT):
        _remove(parent / name.removeprefix(WHITEOUT))
        return
    target = parent / name
    if not (member.isdir() and target.is_dir() and not target.is_symlink()):
        _remove(target)
    if _make(tar, member, target, root):
        _give(member, target)


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, root: Path) -> bool:
    """Make what a member stands for; return whether there is something that has an owner."""
    if member.isdir():
        target.mkdir(exist_ok=True)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        folder, _, name = member.linkname.strip("/").rpartition("/")
        target.hardlink_to(resolve_inside(root, folder) / name)
        return False
    elif member.isfile():
        source = tar.extractfile(member)
        assert source is not None
        with target.open("wb") as file:
            shutil.copyfileobj(source, file)
    elif member.isfifo():
        os.mkfifo(target)
    else:
        return False
    return True


def _give(member: tarfile.TarInfo, target: Path) -> None:
    if os.geteuid() == 0:
        os.chown(target, member.uid, member.gid, follow_symlinks=False)
    if not member.issym():
        # After the owner: a change of owner takes the setuid bit away.
        # Who is not root needs its own rights to unpack into a folder.
        own = 0o700 if member.isdir() and os.geteuid() != 0 else 0
        target.chmod(member.mode & 0o7777 | own)
    for key, value in member.pax_headers.items():
        if key.startswith("SCHILY.xattr."):
            # Capabilities of files need root, and some file systems have no such attributes.
            with contextlib.suppress(OSError):
                os.setxattr(
                    target,
                    key.removeprefix("SCHILY.xattr."),
                    value.encode("utf-8", "surrogateescape"),
                    follow_symlinks=False,
                )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def resolve_inside(root: Path, path: str) -> Path:
    """Return where a path of an image is, with links followed as they are from inside.

    Raises:
        ImageError: the links go round in circles.
    """
    pending = [word for word in reversed(path.split("/")) if word not in ("", ".")]
    resolved: list[str] = []
    links = 0
    while pending:
        word = pending.pop()
        if word == "..":
            del resolved[-1:]
            continue
        place = root.joinpath(*resolved, word)
        if not place.is_symlink():
            resolved.append(word)
            continue
        links += 1
        if links > MAX_LINKS:
            raise ImageError("ErrImagePull", f"too many levels of links in {path}")
        target = os.readlink(place)
        if target.startswith("/"):
            resolved.clear()
        pending += [word for word in reversed(target.split("/")) if word not in ("", ".")]
    return root.joinpath(*resolved)
