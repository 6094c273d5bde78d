"""The node's images: found on the machine, or made from downloaded Debian packages and kept."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from kubewright.local.node.image.image import Image, ImageError
from kubewright.local.node.image.recipe import Recipe, find_recipe, load_recipes
from kubewright.local.node.image.reference import Reference, parse_reference
from kubewright.local.node.process import run

BASE = ("bash", "coreutils", "dash", "findutils", "grep", "hostname", "libc-bin", "sed")
"""What no package names as a dependency, since Debian always has it."""

INSTALLATION = (
    "*debconf*",
    "*-perl",
    "adduser",
    "dpkg",
    "gawk",
    "init-system-helpers",
    "install-info",
    "libdebian-installer*",
    "libperl*",
    "lsb-base",
    "mawk",
    "original-awk",
    "passwd",
    "perl*",
    "sysvinit-utils",
    "usr-is-merged",
    "usrmerge",
)
"""What packages name as a dependency only for the scripts that install them."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MERGED = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}
_FILES, _ROOT = "files", "root"


class ImageStore:
    """Images by recipe. A folder appears in the store whole or not at all.

    `folder` may be shared by nodes that run at the same time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[str, asyncio.Lock] = {}

    async def find(self, name: str) -> Image | None:
        """Return an image that is there already, without downloading.

        Raises:
            InvalidReference: the name cannot be parsed.
        """
        reference = parse_reference(name)
        recipe = find_recipe(reference)
        if recipe is None:
            return None
        if recipe.host and (version := await read_host_version(recipe)):
            folder = await self._prepare_host(recipe, version)
            return build_image(recipe, reference, version, folder, from_host=True)
        return await asyncio.to_thread(self._find_made, recipe, reference)

    async def pull(self, name: str) -> Image:
        """Return an image; what is not there is made from downloaded packages.

        Raises:
            InvalidReference: the name cannot be parsed.
            ImageError: no recipe makes it, or its packages cannot be had; says what to run.
        """
        if image := await self.find(name):
            return image
        reference = parse_reference(name)
        recipe = find_recipe(reference)
        if recipe is None:
            known = ", ".join(recipe.name for recipe in load_recipes())
            raise ImageError(
                "ErrImagePull",
                f'no recipe makes image "{name}": local pods run from recipes ({known})',
            )
        async with self._locks.setdefault(recipe.name, asyncio.Lock()):
            if image := await self.find(name):
                return image
            await self._make(recipe)
        image = await self.find(name)
        if image is None:
            raise ImageError("ErrImagePull", f"recipe {recipe.name} was made and has vanished")
        return image

    def _find_made(self, recipe: Recipe, reference: Reference) -> Image | None:
        made = sorted(self._folder.glob(f"{recipe.name}@*"), key=lambda made: made.stat().st_mtime)
        if not made:
            return None
        version = made[-1].name.partition("@")[2].replace("%3a", ":")
        return build_image(recipe, reference, version, made[-1], from_host=False)

    async def _prepare_host(self, recipe: Recipe, version: str) -> Path:
        target = self._folder / f"{recipe.name}+{escape(version)}"
        if not target.exists():
            with self._staging(target) as staging:
                await asyncio.to_thread(write_files, recipe, staging / _FILES)
        return target

    async def _make(self, recipe: Recipe) -> None:
        with tempfile.TemporaryDirectory() as downloads:
            debs = await download_packages(recipe, Path(downloads))
            version = await read_deb_version(debs[recipe.packages[0]])
            target = self._folder / f"{recipe.name}@{escape(version)}"
            with self._staging(target) as staging:
                root = staging / _ROOT
                await asyncio.to_thread(prepare_root, root)
                for deb in debs.values():
                    code, output = await run(["dpkg-deb", "-x", str(deb), str(root)])
                    if code:
                        raise ImageError("ErrImagePull", f"{deb.name} cannot be unpacked: {output}")
                await asyncio.to_thread(merge_usr, root)
                await asyncio.to_thread(write_files, recipe, root)
                if recipe.applets:
                    await link_applets(root, recipe.applets)

    @contextmanager
    def _staging(self, target: Path) -> Iterator[Path]:
        self._folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".making-", dir=self._folder))
        try:
            yield staging
            staging.chmod(0o755)
            try:
                staging.rename(target)
            except OSError:
                # Another node that shares the store was faster; its folder is as good.
                if not target.exists():
                    raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def escape(version: str) -> str:
    """Write a version as part of a folder's name: a colon would end overlayfs' lowerdir."""
    return version.replace(":", "%3a")


def upstream_version(version: str) -> str:
    """Return the upstream part of a Debian version: `1:1.35.0-4+deb12u1` is `1.35.0`."""
    return re.sub(r"[-+~].*", "", version.rpartition(":")[2])


def build_image(
    recipe: Recipe, reference: Reference, version: str, folder: Path, *, from_host: bool
) -> Image:
    """Build the description of an image in a folder of the store."""
    upstream = upstream_version(version)
    asked = reference.tag
    fits = asked == "latest" or upstream == asked or upstream.startswith(f"{asked}.")
    named = reference.path.rpartition("/")[2] == recipe.name
    asked_for = f'tag "{asked}"' if named else f'image "{reference}"'
    note = (
        "" if named and fits else f"recipe {recipe.name} serves Debian's {upstream} for {asked_for}"
    )
    return Image(
        name=str(reference),
        image_id=f"deb://{recipe.packages[0]}@{version}",
        root=None if from_host else folder / _ROOT,
        files=folder / _FILES if from_host else None,
        entrypoint=recipe.entrypoint,
        cmd=recipe.cmd,
        env={"PATH": DEFAULT_PATH, **recipe.env},
        workdir=recipe.workdir,
        user=recipe.user,
        users={user.name: (user.uid, user.gid) for user in recipe.users},
        stop_signal=recipe.stop_signal,
        note=note,
    )


async def read_host_version(recipe: Recipe) -> str:
    """Return the version of a recipe's first package here; "" unless all are installed."""
    template = "${db:Status-Status} ${Package} ${Version}\n"
    try:
        _, output = await run(["dpkg-query", "-W", "-f", template, *recipe.packages])
    except FileNotFoundError:
        return ""
    installed = {}
    for line in output.splitlines():
        match line.split():
            case ["installed", package, version]:
                installed[package] = version
    return installed[recipe.packages[0]] if installed.keys() >= set(recipe.packages) else ""


async def download_packages(recipe: Recipe, folder: Path) -> dict[str, Path]:
    """Download the packages of a recipe and what they depend on; return the files by package.

    Raises:
        ImageError: apt is missing or cannot download; names the one command that helps.
    """
    packages = ", ".join(recipe.packages)
    remedy = f"run: apt-get update, or as root: apt-get install {' '.join(recipe.packages)}"
    try:
        names = await list_dependencies([*recipe.packages, *(BASE if recipe.base else ())])
        wanted = leave_out(names, (*INSTALLATION, *recipe.without))
        shell = 'cd "$0" && exec apt-get -qq -o APT::Sandbox::User=root download "$@"'
        code, output = await run(["sh", "-c", shell, str(folder), *wanted])
    except FileNotFoundError as error:
        raise ImageError(
            "ErrImagePull",
            f"packages {packages} are not installed, and {error.filename} is missing to download "
            f"them: install {packages} with this machine's package manager",
        ) from None
    files = await asyncio.to_thread(lambda: list(folder.glob("*.deb")))
    debs = {deb.name.partition("_")[0]: deb for deb in files}
    if code or not debs.keys() >= set(recipe.packages):
        last = output.strip().splitlines()[-1:] or ["apt-get failed"]
        raise ImageError(
            "ErrImagePull",
            f"packages {packages} are not installed and cannot be downloaded ({last[0]}); {remedy}",
        )
    return debs


async def list_dependencies(packages: Sequence[str]) -> list[str]:
    """List packages with all that they depend on, by apt's lists."""
    without = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    flags = [f"--no-{relation}" for relation in without]
    _, output = await run(["apt-cache", "depends", "--recurse", *flags, *packages])
    # Names in brackets are virtual packages; the real ones that provide them are listed as well.
    names = [line for line in output.splitlines() if re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", line)]
    return list(dict.fromkeys([*packages, *names]))


def leave_out(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Leave out the packages that match a pattern."""
    return [name for name in names if not any(fnmatchcase(name, p) for p in patterns)]


async def read_deb_version(deb: Path) -> str:
    """Read the version from a package file."""
    _, output = await run(["dpkg-deb", "-f", str(deb), "Version"])
    return output.strip()


def prepare_root(root: Path) -> None:
    """Make the folders that every root has."""
    for name in ("etc", "tmp", "run", "var/tmp", "var/lib", "var/log", "home", "opt", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "var/run").symlink_to("../run")


def merge_usr(root: Path) -> None:
    """Move what is in /bin and its like into /usr, and leave links, as Debian does."""
    for name, target in MERGED.items():
        folder, merged = root / name, root / target
        merged.mkdir(parents=True, exist_ok=True)
        if folder.is_dir():
            shutil.copytree(folder, merged, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(folder)
        folder.symlink_to(target)


def write_files(recipe: Recipe, root: Path) -> None:
    """Write what a recipe adds: its files, and /etc/passwd and /etc/group with its users."""
    passwd = ["root:x:0:0:root:/root:/bin/sh"]
    group = ["root:x:0:"]
    for user in recipe.users:
        passwd.append(f"{user.name}:x:{user.uid}:{user.gid}::{user.home}:{user.shell}")
        group.append(f"{user.name}:x:{user.gid}:")
    passwd.append("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin")
    group.append("nogroup:x:65534:")
    contents = {
        "/etc/passwd": ("\n".join(passwd) + "\n", 0o644),
        "/etc/group": ("\n".join(group) + "\n", 0o644),
        **{file.path: (file.content.lstrip("\n"), file.mode) for file in recipe.files},
    }
    for path, (content, mode) in contents.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        target.chmod(mode)


async def link_applets(root: Path, program: str) -> None:
    """Link every name that a multi-call program answers to, as its installation would."""
    code, output = await run([str(root) + program, "--list"])
    if code:
        raise ImageError("ErrImagePull", f"{program} does not run on this machine: {output}")
    folder = (root / program.lstrip("/")).parent
    for name in output.split():
        link = folder / name
        if not link.exists():
            link.symlink_to(program)
