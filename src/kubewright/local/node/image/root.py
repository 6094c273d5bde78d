"""The root file system of an image of packages: what their scripts would have done."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from kubewright.local.node.image.image import ImageError
from kubewright.local.node.image.recipe import Recipe
from kubewright.local.node.process import run

DOCUMENTS = ("doc", "doc-base", "info", "lintian", "man")
MERGED = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}


def prepare_root(root: Path) -> None:
    """Make the folders that every root has."""
    for name in ("etc", "tmp", "run", "var/tmp", "var/lib", "var/log", "home", "opt", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "var/run").symlink_to("../run")


def merge_run(root: Path) -> None:
    """Let /var/run and /var/lock lead to /run, as Debian's scripts do with what packages have."""
    for name, target in (("var/run", "run"), ("var/lock", "run/lock")):
        folder, merged = root / name, root / target
        merged.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() and not folder.is_symlink():
            move_into(folder, merged)
        if not folder.is_symlink():
            folder.symlink_to(f"../{target}")
    (root / "run").chmod(0o755)
    (root / "run/lock").chmod(0o1777)


def move_into(folder: Path, merged: Path) -> None:
    """Move what a folder holds into another one; what both have is then that of the first.

    Packages that stand in for each other, as libelogind0 does for libsystemd0, have the same names.
    """
    for path in folder.rglob("*"):
        target = merged / path.relative_to(folder)
        if target.is_symlink() or target.is_file():
            target.unlink()
    shutil.copytree(folder, merged, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder)


def measure(root: Path) -> int:
    """Return the bytes in the files of a root."""
    return sum(file.lstat().st_size for file in root.rglob("*") if not file.is_dir())


def drop_documents(root: Path) -> None:
    """Remove what is for reading only, as Debian's own slim images do."""
    for name in DOCUMENTS:
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)


def merge_usr(root: Path) -> None:
    """Move what is in /bin and its like into /usr, and leave links, as Debian does."""
    for name, target in MERGED.items():
        folder, merged = root / name, root / target
        if folder.is_symlink():
            # Newer releases have the links in a package.
            continue
        merged.mkdir(parents=True, exist_ok=True)
        if folder.is_dir():
            move_into(folder, merged)
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
    for place, to in recipe.links.items():
        link = root / place.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(to)
    for folder in recipe.folders:
        made = root / folder.path.lstrip("/")
        made.mkdir(parents=True, exist_ok=True)
        made.chmod(folder.mode)
    for edit in recipe.edits:
        _edit(root / edit.path.lstrip("/"), edit.pattern, edit.text)


def _edit(file: Path, pattern: str, text: str) -> None:
    before = file.read_text()
    after = re.sub(pattern, text, before)
    if after == before:
        raise ImageError("ErrImagePull", f"{file.name} has nothing that matches {pattern!r}")
    file.write_text(after)


async def make_locales(root: Path, names: tuple[str, ...]) -> None:
    """Make the locales of a root from the sources that the package `locales` has.

    Raises:
        ImageError: this machine's localedef cannot make one.
    """
    sources = f"I18NPATH={root / 'usr/share/i18n'}"
    (root / "usr/lib/locale").mkdir(parents=True, exist_ok=True)
    for name in names:
        language, _, charset = name.partition(".")
        argv = ["localedef", "--prefix", str(root), "-c", "-i", language, "-f", charset, name]
        code, output = await run(["env", sources, *argv])
        # 1 stands for warnings: the locale was made.
        if code not in (0, 1):
            raise ImageError("ErrImagePull", f"locale {name} cannot be made: {output}")


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
