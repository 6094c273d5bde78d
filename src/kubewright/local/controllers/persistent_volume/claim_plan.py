"""What to do next for a claim. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.persistent_volume.matching import find_mismatch, find_volume
from kubewright.local.storage.claim import (
    BIND_COMPLETED,
    SELECTED_NODE,
    annotations_of,
    class_of,
    find_default_class,
    has_class,
    is_reserved_for,
    waits_for_consumer,
)


class Bind(msgspec.Struct, frozen=True):
    """Bind the claim to a volume, or complete that."""

    volume: Object


class SetClass(msgspec.Struct, frozen=True):
    """Give the claim the default class that came after it (KEP-3333)."""

    name: str


class Provision(msgspec.Struct, frozen=True):
    """Ask a provisioner for a volume."""

    provisioner: str


class Wait(msgspec.Struct, frozen=True):
    """Leave the claim pending, and say why; without a reason there is nothing to say."""

    type: Literal["Normal", "Warning"] = "Normal"
    reason: str = ""
    message: str = ""


class Lose(msgspec.Struct, frozen=True):
    """Say that the claim's data is lost."""

    reason: str
    message: str


ClaimStep: TypeAlias = Bind | SetClass | Provision | Wait | Lose


class Surroundings(msgspec.Struct, frozen=True):
    """What a claim's next step depends on, asked for only where it does.

    Attributes:
        volumes: Returns all volumes.
        classes: Returns all storage classes.
        find_volume: Returns a volume by name.
        find_class: Returns a storage class by name.
        waiting_pods: Returns the names of the pods that mount the claim and have no node.
    """

    volumes: Callable[[], Sequence[Object]]
    classes: Callable[[], Sequence[Object]]
    find_volume: Callable[[str], Object | None]
    find_class: Callable[[str], Object | None]
    waiting_pods: Callable[[], Sequence[str]]


def plan_claim(claim: Object, around: Surroundings) -> ClaimStep:
    """Decide the next step for a claim."""
    if BIND_COMPLETED in annotations_of(claim):
        return _plan_bound(claim, around)
    if claim["spec"].get("volumeName"):
        return _plan_named(claim, around)
    return _plan_unbound(claim, around)


def _plan_bound(claim: Object, around: Surroundings) -> ClaimStep:
    name = claim["spec"].get("volumeName")
    if not name:
        text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return Lose("ClaimLost", text)
    volume = around.find_volume(name)
    if volume is None:
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return Lose("ClaimLost", text)
    reference = volume["spec"].get("claimRef")
    if reference is None or reference.get("uid") == claim["metadata"]["uid"]:
        return Bind(volume)
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return Lose("ClaimMisbound", text)


def _plan_named(claim: Object, around: Surroundings) -> ClaimStep:
    """Plan for a claim that asks for one volume by name."""
    name = claim["spec"]["volumeName"]
    volume = around.find_volume(name)
    if volume is None:
        return Wait()
    if volume["spec"].get("claimRef") is None:
        if mismatch := find_mismatch(claim, volume):
            text = f'Cannot bind to requested volume "{name}": {mismatch}'
            return Wait("Warning", "VolumeMismatch", text)
        return Bind(volume)
    if is_reserved_for(volume, claim):
        return Bind(volume)
    text = f'volume "{name}" already bound to a different claim.'
    return Wait("Warning", "FailedBinding", text)


def _plan_unbound(claim: Object, around: Surroundings) -> ClaimStep:
    name = class_of(claim)
    storage_class = around.find_class(name) if name else None
    waits = waits_for_consumer(storage_class)
    volume = find_volume(claim, around.volumes(), waits=waits)
    if volume is not None:
        return Bind(volume)
    if not has_class(claim) and (default := find_default_class(around.classes())) is not None:
        return SetClass(default["metadata"]["name"])
    if waits and SELECTED_NODE not in annotations_of(claim):
        return _wait_for_consumer(around.waiting_pods())
    if not name:
        text = "no persistent volumes available for this claim and no storage class is set"
        return Wait("Normal", "FailedBinding", text)
    if storage_class is None:
        text = f'storageclass.storage.k8s.io "{name}" not found'
        return Wait("Warning", "ProvisioningFailed", text)
    provisioner = str(storage_class.get("provisioner") or "")
    if provisioner.startswith("kubernetes.io/"):
        text = f"no volume plugin matched name: {provisioner}"
        return Wait("Warning", "ProvisioningFailed", text)
    return Provision(provisioner)


def _wait_for_consumer(pods: Sequence[str]) -> Wait:
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return Wait("Normal", "WaitForFirstConsumer", text)
    word = "pods" if len(pods) > 1 else "pod"
    text = f"waiting for {word} {','.join(pods)} to be scheduled"
    return Wait("Normal", "WaitForPodScheduled", text)
