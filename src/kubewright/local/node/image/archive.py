"""Archives of images: what `docker save` writes, and OCI image layouts."""

from __future__ import annotations

import contextlib
import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from kubewright.local.node.image.image import ImageError

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class ArchivedImage(msgspec.Struct, frozen=True):
    """An image in an archive: its names, its configuration, and where its layers are."""

    names: tuple[str, ...]
    digest: str
    config: dict[str, Any]
    layers: tuple[str, ...]


class Archive(Protocol):
    """The files of an archive."""

    def has(self, name: str) -> bool:
        """Tell whether there is such a file."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """Open a file. Raises ImageError."""
        ...


class _TarArchive:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {member.name.removeprefix("./"): member for member in tar.getmembers()}

    def has(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        file = self._tar.extractfile(member) if member is not None else None
        if file is None:
            raise ImageError("ErrImagePull", f"the archive has no {name}")
        return file


class _FolderArchive:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        return (self._folder / name).is_file()

    def open(self, name: str) -> IO[bytes]:
        try:
            return (self._folder / name).open("rb")
        except OSError as error:
            raise ImageError("ErrImagePull", f"the layout has no {name}") from error


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an archive, or the folder of an OCI layout.

    Raises:
        ImageError: it is neither.
    """
    if path.is_dir():
        yield _FolderArchive(path)
        return
    with contextlib.ExitStack() as stack:
        try:
            tar = stack.enter_context(tarfile.open(path))
        except (OSError, tarfile.TarError) as error:
            raise ImageError("ErrImagePull", f"{path} is no archive of images: {error}") from error
        yield _TarArchive(tar)


def read_images(archive: Archive, machine: str | None = None) -> list[ArchivedImage]:
    """Read which images an archive holds for this machine.

    Raises:
        ImageError: it has neither the files of `docker save` nor those of an OCI layout.
    """
    if archive.has("manifest.json"):
        return [_read_saved(archive, entry) for entry in _read(archive, "manifest.json")]
    if not archive.has("index.json"):
        raise ImageError(
            "ErrImagePull", "the archive has no manifest.json and no index.json: it is no image"
        )
    architecture = ARCHITECTURES.get(machine or os.uname().machine, machine or "")
    entries = _read(archive, "index.json").get("manifests") or ()
    found = [_read_entry(archive, entry, architecture) for entry in entries]
    return [image for image in found if image is not None]


def _read_saved(archive: Archive, entry: dict[str, Any]) -> ArchivedImage:
    digest = Path(entry["Config"]).name.removesuffix(".json")
    config = _read(archive, entry["Config"])
    return ArchivedImage(
        tuple(entry.get("RepoTags") or ()), f"sha256:{digest}", config, tuple(entry["Layers"])
    )


def _read_entry(
    archive: Archive, entry: dict[str, Any], architecture: str, names: Sequence[str] = ()
) -> ArchivedImage | None:
    annotations = entry.get("annotations") or {}
    names = names or [annotations[key] for key in _NAMES if key in annotations][:1]
    manifest = _read(archive, _blob(entry))
    if entry.get("mediaType") in _INDEXES or "manifests" in manifest:
        for each in manifest.get("manifests") or ():
            platform = each.get("platform") or {}
            if (platform.get("os"), platform.get("architecture")) == ("linux", architecture):
                return _read_entry(archive, each, architecture, names)
        return None
    config = manifest["config"]
    return ArchivedImage(
        tuple(names),
        config["digest"],
        _read(archive, _blob(config)),
        tuple(_blob(layer) for layer in manifest["layers"]),
    )


def _blob(descriptor: dict[str, Any]) -> str:
    algorithm, _, digest = str(descriptor["digest"]).partition(":")
    return f"blobs/{algorithm}/{digest}"


def _read(archive: Archive, name: str) -> Any:
    with archive.open(name) as file:
        try:
            return json.load(file)
        except ValueError as error:
            raise ImageError("ErrImagePull", f"{name} in the archive is not JSON") from error
