"""Images that were loaded from archives: kept unpacked, found by name."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from kubewright.local.node.image.archive import ArchivedImage, open_archive, read_images
from kubewright.local.node.image.image import Image, ImageError
from kubewright.local.node.image.layers import resolve_inside, unpack_layer
from kubewright.local.node.image.reference import parse_reference
from kubewright.local.node.image.root import measure

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LoadedImages:
    """The loaded images below a folder. An image appears whole or not at all.

    `roots` hold each image once, by its digest; `names` are small files that point to one. A name
    that is loaded again moves on; an image that has no more names is removed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._roots = folder / "loaded"
        self._names = folder / "names"

    def find(self, name: str) -> Image | None:
        """Return an image by its full name. Raises InvalidReference."""
        full = str(parse_reference(name))
        pointer = self._names / quote(full, safe="")
        try:
            folder = self._roots / pointer.read_text()
            record = (folder / "image.json").read_bytes()
        except FileNotFoundError:
            return None
        image = msgspec.json.decode(record, type=Image)
        return msgspec.structs.replace(image, name=full, root=folder / "root")

    def images(self) -> Iterator[Image]:
        """Return all images, one for each name, in their order."""
        if self._names.is_dir():
            for pointer in sorted(self._names.iterdir()):
                if image := self.find(unquote(pointer.name)):
                    yield image

    def load(self, path: Path, name: str | None = None) -> list[str]:
        """Unpack the images of an archive; return their full names.

        `name` goes before the names in the archive, for one with a single image.

        Raises:
            ImageError: the archive has no image for this machine, or one without a name.
            InvalidReference: a name cannot be parsed.
        """
        loaded = []
        with open_archive(path) as archive:
            images = read_images(archive)
            if not images:
                raise ImageError("ErrImagePull", f"{path} has no image for this machine")
            for image in images:
                names = (name,) if name and len(images) == 1 else image.names
                if not names:
                    raise ImageError(
                        "ErrImagePull", f"an image in {path} has no name: say one with --name"
                    )
                folder = self._roots / image.digest.replace(":", "-")
                if not folder.exists():
                    self._unpack(image, archive, folder)
                loaded += [self._point(each, folder) for each in names]
        self._drop_unnamed()
        return loaded

    def _unpack(self, image: ArchivedImage, archive: Any, folder: Path) -> None:
        self._roots.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".making-", dir=self._roots))
        try:
            root = staging / "root"
            root.mkdir()
            root.chmod(0o755)
            for layer in image.layers:
                with archive.open(layer) as file:
                    unpack_layer(file, root)
            record = build_image(image, root)
            (staging / "image.json").write_bytes(msgspec.json.encode(record))
            staging.chmod(0o755)
            try:
                staging.rename(folder)
            except OSError:
                # Another process was faster; its image is the same.
                if not folder.exists():
                    raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _point(self, name: str, folder: Path) -> str:
        full = str(parse_reference(name))
        self._names.mkdir(parents=True, exist_ok=True)
        pointer = self._names / quote(full, safe="")
        staged = pointer.with_name(f".{pointer.name}")
        staged.write_text(folder.name)
        staged.replace(pointer)
        return full

    def _drop_unnamed(self) -> None:
        used = {pointer.read_text() for pointer in self._names.iterdir()}
        for folder in self._roots.iterdir():
            if not folder.name.startswith(".") and folder.name not in used:
                shutil.rmtree(folder, ignore_errors=True)


def build_image(image: ArchivedImage, root: Path) -> Image:
    """Build the description of an unpacked image from its configuration."""
    config = image.config.get("config") or {}
    env = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
    return Image(
        name="",
        image_id=image.digest,
        entrypoint=tuple(config.get("Entrypoint") or ()),
        cmd=tuple(config.get("Cmd") or ()),
        env={"PATH": DEFAULT_PATH, **env},
        workdir=config.get("WorkingDir") or "/",
        user=config.get("User") or "",
        users=read_users(root),
        stop_signal=config.get("StopSignal") or "SIGTERM",
        size=measure(root),
    )


def read_users(root: Path) -> dict[str, tuple[int, int]]:
    """Read the users of an image: the uid and the gid of each name."""
    try:
        text = (resolve_inside(root, "etc") / "passwd").read_text(errors="replace")
    except OSError:
        return {}
    users = {}
    for fields in (line.split(":") for line in text.splitlines()):
        match fields:
            case [name, _, uid, gid, *_] if uid.isdigit() and gid.isdigit():
                users[name] = (int(uid), int(gid))
    return users
