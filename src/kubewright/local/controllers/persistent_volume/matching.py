"""Which volume a claim gets. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.storage.claim import (
    capacity,
    class_of,
    is_reserved_for,
    mode_of,
    phase_of,
    requested,
)


def find_mismatch(claim: Object, volume: Object) -> str:
    """Return why a volume that a claim asks for by name does not do; empty when it does."""
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if capacity(volume) < requested(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _attributes_class(volume) != _attributes_class(claim):
        return "volumeAttributesClassName does not match"
    if mode_of(volume) != mode_of(claim):
        return "incompatible volumeMode"
    return "" if _has_access_modes(claim, volume) else "incompatible accessMode"


def find_volume(claim: Object, volumes: Iterable[Object], *, waits: bool) -> Object | None:
    """Return the volume that a claim gets: the one reserved for it, or the smallest free one.

    Of free volumes, those with the fewest access modes beyond the wanted ones come first.

    Args:
        claim: A claim without a volume.
        volumes: All volumes.
        waits: Whether the scheduler chooses a free volume, by the node that it is on.
    """
    best: tuple[int, Object] | None = None
    for volume in sorted(volumes, key=lambda v: str(v["metadata"]["name"])):
        if not _may_hold(claim, volume):
            continue
        if is_reserved_for(volume, claim):
            return volume
        if waits or not _is_free_match(claim, volume):
            continue
        modes = len(volume["spec"].get("accessModes") or ())
        if best is None or (modes, capacity(volume)) < (best[0], capacity(best[1])):
            best = modes, volume
    return best[1] if best else None


def _may_hold(claim: Object, volume: Object) -> bool:
    is_free = volume["spec"].get("claimRef") is None
    return (
        (is_free or is_reserved_for(volume, claim))
        and _has_access_modes(claim, volume)
        and capacity(volume) >= requested(claim)
        and mode_of(volume) == mode_of(claim)
        and _attributes_class(volume) == _attributes_class(claim)
        and not volume["metadata"].get("deletionTimestamp")
    )


def _is_free_match(claim: Object, volume: Object) -> bool:
    selector = claim["spec"].get("selector")
    labels = volume["metadata"].get("labels")
    return (
        phase_of(volume) == "Available"
        and class_of(volume) == class_of(claim)
        and (selector is None or LabelSelector.of(selector).matches(labels))
    )


def _has_access_modes(claim: Object, volume: Object) -> bool:
    wanted, offered = claim["spec"].get("accessModes"), volume["spec"].get("accessModes")
    return set(wanted or ()) <= set(offered or ())


def _attributes_class(obj: Object) -> str:
    return str(obj["spec"].get("volumeAttributesClassName") or "")
