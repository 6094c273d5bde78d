"""Debian packages: what an image needs, downloaded without being installed, as any user."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from kubewright.local.node.image.image import ImageError
from kubewright.local.node.image.recipe import Recipe
from kubewright.local.node.process import run

BASE = (
    *("bash", "bsdutils", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep"),
    *("gzip", "hostname", "libc-bin", "ncurses-base", "sed", "tar", "util-linux"),
)
"""What no package names as a dependency, since Debian always has it (Essential: yes)."""

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

DEFAULT_MIRROR = "http://deb.debian.org/debian"


def upstream_version(version: str) -> str:
    """Return the upstream part of a Debian version: `1:1.35.0-4+deb12u1` is `1.35.0`."""
    return re.sub(r"[-+~].*", "", version.rpartition(":")[2])


def escape(version: str) -> str:
    """Write a version as part of a folder's name: a colon would end overlayfs' lowerdir."""
    return version.replace(":", "%3a")


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
        options = await open_suite(recipe.suite, folder / "apt") if recipe.suite else []
        wanted = [*recipe.packages, *(BASE if recipe.base else ())]
        names = await list_dependencies(wanted, options)
        wanted = leave_out(names, (*INSTALLATION, *recipe.without))
        shell = 'cd "$0" && exec apt-get -qq -o APT::Sandbox::User=root "$@"'
        code, output = await run(["sh", "-c", shell, str(folder), *options, "download", *wanted])
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


async def open_suite(suite: str, folder: Path) -> list[str]:
    """Fetch the list of another release from this machine's mirror; return apt's options for it.

    What apt knows of the machine is neither read nor changed, but for the keys that it trusts.

    Raises:
        ImageError: the list cannot be had.
    """
    _, sites = await run(["apt-get", "indextargets", "--format", "$(SITE)"])
    mirror = next((line for line in sites.split() if "security" not in line), DEFAULT_MIRROR)
    await asyncio.to_thread(_write_suite, folder, f"deb {mirror} {suite} main\n")
    settings = {
        "Dir": str(folder),
        "Dir::Etc::trusted": "/etc/apt/trusted.gpg",
        "Dir::Etc::trustedparts": "/etc/apt/trusted.gpg.d",
        "Dir::State::status": str(folder / "status"),
        "APT::Sandbox::User": "root",
        # A mirror may be an old copy; its signature counts all the same.
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Languages": "none",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    code, output = await run(["apt-get", "-qq", *options, "update"])
    if code:
        last = output.strip().splitlines()[-1:] or ["apt-get failed"]
        raise ImageError(
            "ErrImagePull", f"the packages of Debian {suite} cannot be listed: {last[0]}"
        )
    return options


def _write_suite(folder: Path, source: str) -> None:
    for name in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/apt/apt.conf.d"):
        (folder / name).mkdir(parents=True)
    for name in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt"):
        (folder / name).mkdir(parents=True)
    (folder / "etc/apt/sources.list").write_text(source)
    (folder / "status").touch()
    # What the machine says of proxies and of the network holds here too.
    for file in Path("/etc/apt").glob("apt.conf*"):
        target = folder / "etc/apt" / file.name
        if file.is_dir():
            shutil.copytree(file, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(file, target)


async def list_dependencies(packages: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """List packages with all that they depend on, by apt's lists."""
    without = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    flags = [f"--no-{relation}" for relation in without]
    _, output = await run(["apt-cache", *options, "depends", "--recurse", *flags, *packages])
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
