"""The binder: claims and volumes find each other, and part again.

Both sides say so, in four writes: the volume names the claim, the volume is Bound, the claim names
the volume, the claim is Bound. Each follows from what is there, so that whoever dies between two
of them goes on. The volume's name of its claim decides: it is written first, at the version that
was read, so that no two claims get one volume.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from datetime import timedelta

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.persistent_volume import binding
from kubewright.local.controllers.persistent_volume.claim_plan import (
    Bind,
    ClaimStep,
    Lose,
    Provision,
    SetClass,
    Surroundings,
    Wait,
    plan_claim,
)
from kubewright.local.controllers.persistent_volume.volume_plan import (
    Fail,
    Release,
    RemoveFolder,
    SetPhase,
    TellMismatch,
    Unbind,
    VolumeStep,
    is_released,
    needs_check,
    plan_reclaim,
    plan_volume,
)
from kubewright.local.controllers.pod import is_pod_finished
from kubewright.local.storage.claim import (
    claim_key,
    class_of,
    keys_of_pod,
    phase_of,
)
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "persistentvolume-controller"
RETRY = timedelta(seconds=15)
"""How often a claim that waits is looked at, and says again why it does."""

_BY_CLAIM = "binder/claim"
_BY_MOUNT = "binder/mount"


def build_binder_controllers(recorder: EventRecorder) -> list[Controller]:
    """Build the two halves of the binder: one looks at claims, the other at volumes."""
    links = _Links()
    claims = Controller(
        f"{NAME}-claims",
        builtin.PERSISTENT_VOLUME_CLAIM,
        with_recorder(reconcile_claim, recorder),
        watches=[
            Watch(builtin.PERSISTENT_VOLUME, links.claims_of_volume),
            Watch(builtin.STORAGE_CLASS, links.claims_of_class),
        ],
        reads=[builtin.POD],
        workers=1,
        setup=links.set_up,
    )
    volumes = Controller(
        f"{NAME}-volumes",
        builtin.PERSISTENT_VOLUME,
        with_recorder(reconcile_volume, recorder),
        watches=[Watch(builtin.PERSISTENT_VOLUME_CLAIM, links.volumes_of_claim)],
        workers=1,
    )
    return [claims, volumes]


async def reconcile_claim(key: NamespacedName, ctx: Context) -> Result | None:
    """Bring one claim a step further."""
    claim = ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, key)
    if claim is None:
        return None
    step = plan_claim(claim, _look_around(ctx, key))
    await _apply_claim_step(ctx, claim, step)
    return Result(after=RETRY) if isinstance(step, Wait) and step.reason else None


def _look_around(ctx: Context, key: NamespacedName) -> Surroundings:
    def waiting_pods() -> list[str]:
        entries = ctx.store(builtin.POD).by_index(_BY_MOUNT, str(key))
        pods = [entry.object() for entry in entries]
        waiting = (p for p in pods if not p["spec"].get("nodeName") and not is_pod_finished(p))
        return sorted(pod["metadata"]["name"] for pod in waiting)

    return Surroundings(
        volumes=lambda: ctx.list(builtin.PERSISTENT_VOLUME),
        classes=lambda: ctx.list(builtin.STORAGE_CLASS),
        find_volume=lambda name: ctx.get(builtin.PERSISTENT_VOLUME, NamespacedName("", name)),
        find_class=lambda name: ctx.get(builtin.STORAGE_CLASS, NamespacedName("", name)),
        waiting_pods=waiting_pods,
    )


async def _apply_claim_step(ctx: Context, claim: Object, step: ClaimStep) -> None:
    match step:
        case Bind():
            await _bind(ctx, claim, step.volume)
        case SetClass():
            spec = {**claim["spec"], "storageClassName": step.name}
            await ctx.replace({**claim, "spec": spec})
        case Provision():
            await _ask_provisioner(ctx, claim, step.provisioner)
        case Wait():
            if step.reason:
                ctx.recorder.event(claim, step.type, step.reason, step.message)
            await _write(ctx, binding.build_claim_phase(claim, "Pending", None), "status")
        case Lose():
            if phase_of(claim) == "Lost":
                return
            await _write(ctx, binding.build_claim_phase(claim, "Lost", None), "status")
            ctx.recorder.event(claim, "Warning", step.reason, step.message)


async def _bind(ctx: Context, claim: Object, volume: Object) -> None:
    """Write what is missing of a binding, the volume first."""
    volume = await _write(ctx, binding.build_bound_volume(volume, claim)) or volume
    volume = await _write(ctx, binding.build_volume_phase(volume, "Bound"), "status") or volume
    claim = await _write(ctx, binding.build_bound_claim(claim, volume)) or claim
    await _write(ctx, binding.build_claim_phase(claim, "Bound", volume), "status")


async def _ask_provisioner(ctx: Context, claim: Object, provisioner: str) -> None:
    await _write(ctx, binding.build_provisioned_claim(claim, provisioner))
    note = (
        "Waiting for a volume to be created either by the external provisioner "
        f"'{provisioner}' or manually by the system administrator. If volume creation is delayed, "
        "please verify that the provisioner is running and correctly registered."
    )
    ctx.recorder.event(claim, "Normal", "ExternalProvisioning", note)


async def _write(ctx: Context, obj: Object | None, subresource: str | None = None) -> Object | None:
    return None if obj is None else await ctx.replace(obj, subresource=subresource)


async def reconcile_volume(key: NamespacedName, ctx: Context) -> Result | None:
    """Bring one volume a step further."""
    volume = ctx.get(builtin.PERSISTENT_VOLUME, key)
    if volume is None:
        return None
    named = claim_key(volume)
    claim = None if named is None else ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, named)
    if named is not None and needs_check(volume, claim):
        claim = await _read_claim(ctx, named)
    step = plan_volume(volume, claim)
    if step is not None:
        await _apply_volume_step(ctx, volume, step)
    return None


async def _read_claim(ctx: Context, key: NamespacedName) -> Object | None:
    try:
        return await ctx.client.get(
            builtin.PERSISTENT_VOLUME_CLAIM, key.name, namespace=key.namespace
        )
    except NotFound:
        return None


async def _apply_volume_step(ctx: Context, volume: Object, step: VolumeStep) -> None:
    match step:
        case SetPhase():
            await _write(ctx, binding.build_volume_phase(volume, step.phase), "status")
        case Unbind():
            unbound = await ctx.replace(binding.build_unbound_volume(volume))
            await _write(ctx, binding.build_volume_phase(unbound, "Available"), "status")
        case TellMismatch():
            _tell_mismatch(ctx, volume, step.claim)
        case Release():
            if not is_released(volume):
                released = binding.build_volume_phase(volume, "Released")
                volume = await _write(ctx, released, "status") or volume
            await _reclaim(ctx, volume)


def _tell_mismatch(ctx: Context, volume: Object, claim: Object) -> None:
    text = (
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
        f'"{claim["metadata"]["name"]}" due to incompatible volumeMode.'
    )
    ctx.recorder.event(volume, "Warning", "VolumeMismatch", text)
    text = (
        f'Cannot bind PersistentVolume "{volume["metadata"]["name"]}" to requested '
        "PersistentVolumeClaim due to incompatible volumeMode."
    )
    ctx.recorder.event(claim, "Warning", "VolumeMismatch", text)


async def _reclaim(ctx: Context, volume: Object) -> None:
    match plan_reclaim(volume):
        case Fail() as failure:
            await _fail(ctx, volume, failure)
        case RemoveFolder() as removal:
            try:
                await asyncio.to_thread(shutil.rmtree, removal.path)
            except FileNotFoundError:
                pass
            except OSError as error:
                await _fail(ctx, volume, Fail("VolumeFailedDelete", str(error)))
                return
            metadata = volume["metadata"]
            if metadata.get("deletionTimestamp") is None:
                key = NamespacedName("", metadata["name"])
                await ctx.delete(builtin.PERSISTENT_VOLUME, key, uid=metadata["uid"])


async def _fail(ctx: Context, volume: Object, failure: Fail) -> None:
    failed = binding.build_volume_phase(volume, "Failed", failure.message)
    if failed is not None:
        await ctx.replace(failed, subresource="status")
        ctx.recorder.event(volume, "Warning", failure.reason, failure.message)


class _Links:
    """Which claims a change of a volume or a class concerns, and the other way round."""

    def __init__(self) -> None:
        self._claims: Store | None = None
        self._volumes: Store | None = None

    def set_up(self, cache: Cache) -> None:
        """Take the stores; to be called before changes arrive."""
        self._claims = cache.store(builtin.PERSISTENT_VOLUME_CLAIM)
        self._volumes = cache.store(builtin.PERSISTENT_VOLUME)
        self._volumes.add_index(_BY_CLAIM, _claim_of_volume)
        cache.store(builtin.POD).add_index(_BY_MOUNT, _claims_of_pod)

    def claims_of_volume(self, entry: Entry) -> Iterable[NamespacedName]:
        """Return the claim that a volume names, or those that a free one may be for."""
        volume = entry.object()
        named = claim_key(volume)
        if named is not None:
            return [named]
        name = entry.meta.name
        return [
            claim.key
            for claim, spec, storage_class in self._unbound()
            if spec.get("volumeName") == name
            or (not spec.get("volumeName") and storage_class == class_of(volume))
        ]

    def claims_of_class(self, entry: Entry) -> Iterable[NamespacedName]:
        """Return the claims that wait for a class, or for a default one."""
        names = ("", entry.meta.name)
        return [claim.key for claim, _, storage_class in self._unbound() if storage_class in names]

    def volumes_of_claim(self, entry: Entry) -> Iterable[NamespacedName]:
        """Return the volumes that a claim names, or that name it."""
        keys = set()
        if name := entry.object()["spec"].get("volumeName"):
            keys.add(NamespacedName("", name))
        if self._volumes is not None:
            found = self._volumes.by_index(_BY_CLAIM, str(entry.key))
            keys.update(volume.key for volume in found)
        return keys

    def _unbound(self) -> Iterable[tuple[Entry, Object, str]]:
        for entry in self._claims.list() if self._claims is not None else ():
            if (claim := entry.object()) and phase_of(claim) in ("", "Pending"):
                yield entry, claim["spec"], class_of(claim)


def _claim_of_volume(entry: Entry) -> Iterable[str]:
    key = claim_key(entry.object())
    return [] if key is None else [str(key)]


def _claims_of_pod(entry: Entry) -> Iterable[str]:
    return [str(key) for key in keys_of_pod(entry)]
