"""Recipes: how an image that stock manifests name is made from Debian packages.

A recipe keeps the contract of the image it stands for (entry point, command, user, environment), so
that a pod need not know that it runs from packages. Recipes are data: `recipes/*.toml`.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.local.node.image.reference import Reference

MAKER = 4
"""Raised when images are made in another way from the same recipe."""


class ImageUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the image's /etc/passwd and /etc/group."""

    name: str
    uid: int
    gid: int
    home: str = "/nonexistent"
    shell: str = "/usr/sbin/nologin"


class ImageFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the recipe adds to the packages."""

    path: str
    content: str
    mode: int = 0o644


class ImageFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that the recipe adds, or opens: a server writes there as a user of its own."""

    path: str
    mode: int = 0o755


class ImageEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a package's file: what matches the regular expression becomes the text."""

    path: str
    pattern: str
    text: str


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one family of images is made.

    `images` are patterns of repository names (`docker.io/library/memcached`). `packages` are
    Debian packages; `without` are patterns of dependencies to leave out. With `host`, the machine's
    own /usr serves when the packages are installed there. With `base`, the shell and the usual
    small commands come with downloaded packages. The version of the first package is the version
    that the image really has. `applets` is a program whose `--list` are its names.

    `suite` is another release of Debian to take the packages from. `locales` are made as Debian's
    own scripts make them, `links` are by path. `steps_down_to` is the user that the entry point
    becomes when it is started as root; where containers have one user, it is started as that.
    """

    name: str
    images: tuple[str, ...]
    packages: tuple[str, ...]
    without: tuple[str, ...] = ()
    host: bool = True
    base: bool = True
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    user: str = ""
    workdir: str = "/"
    stop_signal: str = "SIGTERM"
    applets: str = ""
    steps_down_to: str = ""
    suite: str = ""
    locales: tuple[str, ...] = ()
    links: dict[str, str] = {}
    env: dict[str, str] = {}
    users: tuple[ImageUser, ...] = ()
    files: tuple[ImageFile, ...] = ()
    folders: tuple[ImageFolder, ...] = ()
    edits: tuple[ImageEdit, ...] = ()

    @property
    def digest(self) -> str:
        """What tells an image from one that was made otherwise from the same packages."""
        return hashlib.sha256(msgspec.json.encode((MAKER, self))).hexdigest()[:8]

    def serves(self, reference: Reference) -> bool:
        """Tell whether this recipe makes the image."""
        return any(fnmatchcase(reference.repository, pattern) for pattern in self.images)


def parse_recipe(text: str, source: str, read: Callable[[str], str] | None = None) -> Recipe:
    """Read a recipe from TOML. `read` gives the text of a file that a `source` names.

    Raises:
        ConfigurationError: the text is not TOML, or has unknown, missing or ill-typed keys.
    """
    try:
        data: dict[str, Any] = tomllib.loads(text)
        for entry in data.get("files", ()):
            if read is not None and "source" in entry:
                entry["content"] = read(entry.pop("source"))
        recipe = msgspec.convert(data, Recipe, strict=True)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"recipe {source}: {error}") from error
    if not recipe.packages:
        raise ConfigurationError(f"recipe {source}: packages must name at least one Debian package")
    return recipe


@cache
def load_recipes() -> tuple[Recipe, ...]:
    """Load the recipes that come with Kubewright, by name."""
    folder = files("kubewright.local.node.image") / "recipes"
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return tuple(
        parse_recipe(entry.read_text("utf-8"), entry.name, _read_beside)
        for entry in entries
        if entry.name.endswith(".toml")
    )


def _read_beside(name: str) -> str:
    folder = files("kubewright.local.node.image") / "recipes"
    return (folder / name).read_text("utf-8")


def find_recipe(reference: Reference, recipes: Iterable[Recipe] | None = None) -> Recipe | None:
    """Return the recipe that makes an image, if there is one."""
    candidates = load_recipes() if recipes is None else recipes
    return next((recipe for recipe in candidates if recipe.serves(reference)), None)
