"""The provisioner of a node: it makes, grows and removes the folders that are its volumes.

It runs in the node's process, since only that may reach what the node's containers have written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from pathlib import Path

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Entry
from kubewright.local.storage import local_volume
from kubewright.local.storage.claim import (
    PROVISIONER,
    annotations_of,
    capacity,
    class_of,
    requested,
    wants_growth,
)
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.watch import Watch

_MODE = 0o777
"""Containers of any user may write to a new volume, as they may to an emptyDir."""


class Provisioner(msgspec.Struct, frozen=True):
    """Makes the volumes of one node below a folder.

    Guarantees: a folder is removed only when the claim is gone, the volume's policy is Delete, and
    the folder is one of this node's. What is done twice is done once: names follow from the claim.

    Attributes:
        node: The name of the node.
        folder: Where its volumes are; it must outlive the node's process.
    """

    node: str
    folder: Path

    def build_controllers(self) -> list[Controller]:
        """Build the controllers: one makes volumes and lets them grow, the other removes them."""
        claims = Controller(
            f"{local_volume.NAME}_{self.node}",
            builtin.PERSISTENT_VOLUME_CLAIM,
            self.reconcile_claim,
            watches=[Watch(builtin.PERSISTENT_VOLUME, _claim_of_volume, is_start_known=True)],
            reads=[builtin.STORAGE_CLASS],
        )
        volumes = Controller(
            f"{local_volume.NAME}_{self.node}_volumes",
            builtin.PERSISTENT_VOLUME,
            self.reconcile_volume,
        )
        return [claims, volumes]

    async def reconcile_claim(self, key: NamespacedName, ctx: Context) -> None:
        """Make the volume of one claim, or let it grow."""
        claim = ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, key)
        if claim is None:
            return
        if wants_growth(claim):
            await self._grow(ctx, claim)
        if annotations_of(claim).get(PROVISIONER) != local_volume.NAME:
            return
        storage_class = ctx.get(builtin.STORAGE_CLASS, NamespacedName("", class_of(claim)))
        if storage_class is None or not local_volume.is_asked(claim, storage_class, self.node):
            return
        name = local_volume.volume_name(claim)
        if ctx.get(builtin.PERSISTENT_VOLUME, NamespacedName("", name)) is not None:
            return
        if refusal := local_volume.find_refusal(claim):
            _tell_failure(ctx, claim, refusal)
            return
        await self._make(ctx, claim, storage_class)

    async def _make(self, ctx: Context, claim: Object, storage_class: Object) -> None:
        key, name = NamespacedName.of(claim), local_volume.volume_name(claim)
        note = f'External provisioner is provisioning volume for claim "{key}"'
        ctx.recorder.event(claim, "Normal", "Provisioning", note)
        volume = local_volume.build_volume(claim, storage_class, self.node, self.folder)
        path = Path(volume["spec"]["local"]["path"])
        try:
            await asyncio.to_thread(_make_folder, path)
            await ctx.create(volume)
        except AlreadyExists:
            await self._leave(ctx, name, path)
            return
        except OSError as error:
            _tell_failure(ctx, claim, str(error))
            raise
        note = f"Successfully provisioned volume {name}"
        ctx.recorder.event(claim, "Normal", "ProvisioningSucceeded", note)

    async def _leave(self, ctx: Context, name: str, path: Path) -> None:
        """Leave a volume that is there already: made before a crash, or by another node.

        The latter where a claim does not wait for a node to be selected: our folder is for nothing.
        """
        with contextlib.suppress(NotFound):
            made = await ctx.client.get(builtin.PERSISTENT_VOLUME, name)
            if not local_volume.is_on(made, self.node):
                await asyncio.to_thread(path.rmdir)

    async def _grow(self, ctx: Context, claim: Object) -> None:
        """Let a volume grow: a folder has room already, so that only its objects change."""
        name = claim["spec"].get("volumeName") or ""
        volume = ctx.get(builtin.PERSISTENT_VOLUME, NamespacedName("", name))
        if volume is None or not local_volume.is_on(volume, self.node):
            return
        note = f"External resizer is resizing volume {name}"
        ctx.recorder.event(claim, "Normal", "Resizing", note)
        if capacity(volume) < requested(claim):
            await ctx.replace(local_volume.build_grown_volume(volume, claim))
        await ctx.replace(local_volume.build_grown_claim(claim), subresource="status")
        note = "Resize volume succeeded"
        ctx.recorder.event(claim, "Normal", "VolumeResizeSuccessful", note)

    async def reconcile_volume(self, key: NamespacedName, ctx: Context) -> None:
        """Remove one volume of this node when it is to go."""
        volume = ctx.get(builtin.PERSISTENT_VOLUME, key)
        if volume is None or not local_volume.is_on(volume, self.node):
            return
        if local_volume.is_held_for_nothing(volume):
            await ctx.replace(local_volume.without_finalizer(volume))
        elif local_volume.is_to_be_removed(volume):
            await self._remove(ctx, volume)

    async def _remove(self, ctx: Context, volume: Object) -> None:
        """Remove the folder, the volume, and at last what holds it: each may be done already."""
        path = Path(volume["spec"]["local"]["path"])
        if path.parent != self.folder:
            note = f"{path} is not among this node's volumes in {self.folder}: remove it yourself"
            ctx.recorder.event(volume, "Warning", "VolumeFailedDelete", note)
            return
        try:
            await asyncio.to_thread(_remove_folder, path)
        except OSError as error:
            ctx.recorder.event(volume, "Warning", "VolumeFailedDelete", str(error))
            raise
        metadata = volume["metadata"]
        key = NamespacedName("", metadata["name"])
        try:
            if metadata.get("deletionTimestamp") is None:
                await ctx.delete(builtin.PERSISTENT_VOLUME, key, uid=metadata["uid"])
            elif local_volume.FINALIZER in (metadata.get("finalizers") or ()):
                await ctx.replace(local_volume.without_finalizer(volume))
        except NotFound:
            return


def _tell_failure(ctx: Context, claim: Object, reason: str) -> None:
    note = f'failed to provision volume with StorageClass "{class_of(claim)}": {reason}'
    ctx.recorder.event(claim, "Warning", "ProvisioningFailed", note)


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(_MODE)


def _remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, also what its owner made unreadable.

    Raises:
        OSError: something could not be removed.
    """

    def open_up(_: object, path: str, __: object) -> None:
        os.chmod(path, stat.S_IRWXU)
        shutil.rmtree(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=open_up)


def _claim_of_volume(entry: Entry) -> list[NamespacedName]:
    reference = entry.object()["spec"].get("claimRef") or {}
    if not reference.get("name"):
        return []
    return [NamespacedName(str(reference.get("namespace") or ""), str(reference["name"]))]
