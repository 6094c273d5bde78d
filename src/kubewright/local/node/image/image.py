"""An image that containers can be started from: its root file system and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kubewright.api.errors import KubewrightError


class ImageError(KubewrightError):
    """An image cannot be had. `reason` is the waiting reason, such as `ErrImagePull`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Image(msgspec.Struct, frozen=True):
    """An image in the node's store.

    `root` is the folder with its root file system, or None when the machine's own /usr serves;
    `files` is a folder of files to put over it. `steps_down_to` is the user that its entry point
    becomes when it is started as root. `note` says what differs from the image asked for,
    in one sentence. `users` maps names to (uid, gid).
    """

    name: str
    image_id: str
    root: Path | None = None
    files: Path | None = None
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    workdir: str = "/"
    user: str = ""
    steps_down_to: str = ""
    users: Mapping[str, tuple[int, int]] = {}
    stop_signal: str = "SIGTERM"
    size: int = 0
    note: str = ""

    def resolve_user(self) -> tuple[int, int]:
        """Return the uid and gid of the image's user; an image that names none runs as root."""
        name, _, group = self.user.partition(":")
        uid, gid = (int(name), 0) if name.isdigit() else self.users.get(name, (0, 0))
        return uid, int(group) if group.isdigit() else gid
