"""What to do next for a volume. Pure."""

from __future__ import annotations

import posixpath
from typing import TypeAlias

import msgspec

from kubewright.api.resource import Object
from kubewright.local.storage.claim import (
    PROVISIONED_BY,
    annotations_of,
    mode_of,
    phase_of,
)

_FINAL_PHASES = ("Released", "Failed")


class SetPhase(msgspec.Struct, frozen=True):
    """Write the phase, where it differs."""

    phase: str


class Unbind(msgspec.Struct, frozen=True):
    """Take the claim off the volume: it got another one."""


class Release(msgspec.Struct, frozen=True):
    """Say that the claim is gone, then do what the reclaim policy says."""


class TellMismatch(msgspec.Struct, frozen=True):
    """Say that volume and claim are of different modes, so that they cannot be bound."""

    claim: Object


VolumeStep: TypeAlias = SetPhase | Unbind | Release | TellMismatch


def needs_check(volume: Object, claim: Object | None) -> bool:
    """Tell whether the server must be asked for a volume's claim before the volume is released.

    What a store shows may be older than the volume. Once the claim is known to be gone, it stays
    so: a later one of the same name has another UID.
    """
    reference = volume["spec"].get("claimRef") or {}
    if not reference.get("uid"):
        return False
    if claim is None:
        return phase_of(volume) not in _FINAL_PHASES
    return bool(claim["metadata"]["uid"] != reference["uid"])


def plan_volume(volume: Object, claim: Object | None) -> VolumeStep | None:
    """Decide the next step for a volume.

    Args:
        volume: The decoded volume.
        claim: The claim of the name that it refers to, if there is one.
    """
    reference = volume["spec"].get("claimRef") or {}
    if not reference.get("uid"):
        return SetPhase("Available")
    if claim is None or claim["metadata"]["uid"] != reference["uid"]:
        return Release()
    name = claim["spec"].get("volumeName")
    if not name:
        return TellMismatch(claim) if mode_of(claim) != mode_of(volume) else None
    if name == volume["metadata"]["name"]:
        return SetPhase("Bound")
    is_provisioned = PROVISIONED_BY in annotations_of(volume)
    if is_provisioned and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return Release()
    return Unbind()


def is_released(volume: Object) -> bool:
    """Tell whether a volume says already that its claim is gone."""
    return phase_of(volume) in _FINAL_PHASES


class Fail(msgspec.Struct, frozen=True):
    """Say that a volume cannot be reclaimed, as its phase and in an Event."""

    reason: str
    message: str


class RemoveFolder(msgspec.Struct, frozen=True):
    """Remove a folder of this machine, then the volume."""

    path: str


def plan_reclaim(volume: Object) -> Fail | RemoveFolder | None:
    """Decide what becomes of a released volume; None leaves it to its provisioner or to people."""
    policy = volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain"
    name = volume["metadata"]["name"]
    if policy == "Retain":
        return None
    if policy == "Recycle":
        return Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!")
    if policy != "Delete":
        text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
        return Fail("VolumeUnknownReclaimPolicy", text)
    provisioner = annotations_of(volume).get(PROVISIONED_BY, "")
    if (provisioner and not provisioner.startswith("kubernetes.io/")) or "csi" in volume["spec"]:
        return None
    path = (volume["spec"].get("hostPath") or {}).get("path")
    if path is None:
        text = f'error getting deleter volume plugin for volume "{name}": no volume plugin matched'
        return Fail("VolumeFailedDelete", text)
    if not posixpath.normpath(path).startswith("/tmp/"):
        text = f"host_path deleter only supports /tmp/.+ but received provided {path}"
        return Fail("VolumeFailedDelete", text)
    return RemoveFolder(path)
