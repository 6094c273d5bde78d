"""Recipes: how an image that stock manifests name is made from Debian packages.

A recipe keeps the contract of the image it stands for (entry point, command, user, environment), so
that a pod need not know that it runs from packages. Recipes are data: `recipes/*.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.local.node.image.reference import Reference


class ImageUser(msgspec.Struct, frozen=True):
    """A line of the image's /etc/passwd and /etc/group."""

    name: str
    uid: int
    gid: int
    home: str = "/nonexistent"
    shell: str = "/usr/sbin/nologin"


class ImageFile(msgspec.Struct, frozen=True):
    """A file that the recipe adds to the packages."""

    path: str
    content: str
    mode: int = 0o644


class Recipe(msgspec.Struct, frozen=True):
    """How one family of images is made.

    `images` are patterns of repository names (`docker.io/library/memcached`). `packages` are
    Debian packages; `without` are patterns of dependencies to leave out. With `host`, the machine's
    own /usr serves when the packages are installed there. With `base`, the shell and the usual
    small commands come with downloaded packages. The version of the first package is the version
    that the image really has. `applets` is a program whose `--list` are its names.
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
    env: dict[str, str] = {}
    users: tuple[ImageUser, ...] = ()
    files: tuple[ImageFile, ...] = ()

    def serves(self, reference: Reference) -> bool:
        """Tell whether this recipe makes the image."""
        return any(fnmatchcase(reference.repository, pattern) for pattern in self.images)


def parse_recipe(text: str, source: str) -> Recipe:
    """Read a recipe from TOML.

    Raises:
        ConfigurationError: the text is not TOML, or has unknown, missing or ill-typed keys.
    """
    try:
        data: dict[str, Any] = tomllib.loads(text)
        users = tuple(ImageUser(**entry) for entry in data.pop("users", ()))
        extra = tuple(ImageFile(**entry) for entry in data.pop("files", ()))
        fields: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        recipe = Recipe(**fields, users=users, files=extra)
    except (tomllib.TOMLDecodeError, TypeError) as error:
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
        parse_recipe(entry.read_text("utf-8"), entry.name)
        for entry in entries
        if entry.name.endswith(".toml")
    )


def find_recipe(reference: Reference, recipes: Iterable[Recipe] | None = None) -> Recipe | None:
    """Return the recipe that makes an image, if there is one."""
    candidates = load_recipes() if recipes is None else recipes
    return next((recipe for recipe in candidates if recipe.serves(reference)), None)
