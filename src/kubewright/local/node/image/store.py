"""The node's images: found on the machine, or made from downloaded Debian packages and kept."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kubewright.local.node.image.image import Image, ImageError
from kubewright.local.node.image.loaded import DEFAULT_PATH, LoadedImages
from kubewright.local.node.image.packages import (
    download_packages,
    escape,
    read_deb_version,
    read_host_version,
    upstream_version,
)
from kubewright.local.node.image.recipe import Recipe, find_recipe, load_recipes
from kubewright.local.node.image.reference import Reference, parse_reference
from kubewright.local.node.image.root import (
    drop_documents,
    link_applets,
    make_locales,
    measure,
    merge_run,
    merge_usr,
    prepare_root,
    write_files,
)
from kubewright.local.node.process import run

_FILES, _ROOT, _SIZE = "files", "root", "size"


def default_folder() -> Path:
    """Return the folder of this user's images (XDG base directory specification)."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "kubewright" / "images"


class ImageStore:
    """Images that were loaded, and images by recipe. A folder appears whole or not at all.

    `folder` may be shared by nodes that run at the same time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[str, asyncio.Lock] = {}
        self._loaded = LoadedImages(folder)

    async def find(self, name: str) -> Image | None:
        """Return an image that is there already, without downloading.

        Raises:
            InvalidReference: the name cannot be parsed.
        """
        reference = parse_reference(name)
        if loaded := await asyncio.to_thread(self._loaded.find, name):
            return loaded
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
            return await self._copy(reference)
        async with self._locks.setdefault(recipe.name, asyncio.Lock()):
            if image := await self.find(name):
                return image
            await self._make(recipe)
        image = await self.find(name)
        if image is None:
            raise ImageError("ErrImagePull", f"recipe {recipe.name} was made and has vanished")
        return image

    async def _copy(self, reference: Reference) -> Image:
        """Fetch an image from its registry, through skopeo where this machine has it."""
        program = shutil.which("skopeo")
        if program is None:
            known = ", ".join(recipe.name for recipe in load_recipes())
            raise ImageError(
                "ErrImagePull",
                f'no recipe makes image "{reference}", and there is no skopeo to fetch it with: '
                f"local pods run from recipes ({known}) and from loaded archives "
                "(kubewright local image load)",
            )
        name = f"{reference.repository}@{reference.digest}" if reference.digest else str(reference)
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder, "image.tar")
            argv = [program, "copy", "--quiet", f"docker://{name}", f"oci-archive:{archive}"]
            code, output = await run(argv)
            if code:
                last = output.strip().splitlines()[-1:] or ["skopeo failed"]
                raise ImageError("ErrImagePull", last[0])
            await asyncio.to_thread(self._loaded.load, archive, str(reference))
        image = await asyncio.to_thread(self._loaded.find, str(reference))
        if image is None:
            raise ImageError("ErrImagePull", f"image {reference} was fetched and has vanished")
        return image

    def loaded(self) -> list[Image]:
        """List the images that were loaded, one for each name."""
        return list(self._loaded.images())

    def made(self) -> list[Image]:
        """List the images that were made by recipes as they are now."""
        found = []
        for recipe in load_recipes():
            reference = parse_reference(recipe.name)
            if image := self._find_made(recipe, reference):
                found.append(image)
        return found

    def load(self, path: Path, name: str | None = None) -> list[str]:
        """Unpack the images of an archive; see `LoadedImages.load`."""
        return self._loaded.load(path, name)

    def _find_made(self, recipe: Recipe, reference: Reference) -> Image | None:
        pattern = f"{recipe.name}@*_{recipe.digest}"
        made = sorted(self._folder.glob(pattern), key=lambda made: made.stat().st_mtime)
        if not made:
            return None
        version = made[-1].name.partition("@")[2].rpartition("_")[0].replace("%3a", ":")
        image = build_image(recipe, reference, version, made[-1], from_host=False)
        size = made[-1] / _SIZE
        return msgspec.structs.replace(image, size=int(size.read_text()) if size.exists() else 0)

    async def _prepare_host(self, recipe: Recipe, version: str) -> Path:
        target = self._folder / f"{recipe.name}+{escape(version)}_{recipe.digest}"
        if not target.exists():
            with self._staging(target) as staging:
                await asyncio.to_thread(write_files, recipe, staging / _FILES)
        return target

    async def _make(self, recipe: Recipe) -> None:
        with tempfile.TemporaryDirectory() as downloads:
            debs = await download_packages(recipe, Path(downloads))
            version = await read_deb_version(debs[recipe.packages[0]])
            target = self._folder / f"{recipe.name}@{escape(version)}_{recipe.digest}"
            with self._staging(target) as staging:
                root = staging / _ROOT
                await asyncio.to_thread(prepare_root, root)
                for deb in debs.values():
                    code, output = await run(["dpkg-deb", "-x", str(deb), str(root)])
                    if code:
                        raise ImageError("ErrImagePull", f"{deb.name} cannot be unpacked: {output}")
                await asyncio.to_thread(merge_usr, root)
                await asyncio.to_thread(merge_run, root)
                await asyncio.to_thread(drop_documents, root)
                await asyncio.to_thread(write_files, recipe, root)
                await make_locales(root, recipe.locales)
                size = await asyncio.to_thread(measure, root)
                await asyncio.to_thread((staging / _SIZE).write_text, str(size))
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
        steps_down_to=recipe.steps_down_to,
        users={user.name: (user.uid, user.gid) for user in recipe.users},
        stop_signal=recipe.stop_signal,
        note=note,
    )
