"""What binding writes into a claim and its volume. Pure.

Each function returns the object to write, or None when it says so already: whoever died between
two writes goes on where it was.
"""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.storage.claim import (
    BETA_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONER,
    annotations_of,
    is_reserved_for,
    phase_of,
)

_OF_VOLUME = ("accessModes", "capacity", "currentVolumeAttributesClassName")


def build_reference(claim: Object) -> Object:
    """Build the reference to a claim that its volume keeps."""
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "v1",
        "resourceVersion": metadata["resourceVersion"],
    }


def build_bound_volume(volume: Object, claim: Object) -> Object | None:
    """Build a volume that names the claim; it remembers whether we chose it, or its maker."""
    reference = volume["spec"].get("claimRef") or {}
    is_named = is_reserved_for(volume, claim)
    if is_named and reference.get("uid") == claim["metadata"]["uid"]:
        return None
    bound = {**volume, "spec": {**volume["spec"], "claimRef": build_reference(claim)}}
    return bound if is_named else with_annotation(bound, BOUND_BY_CONTROLLER, "yes")


def build_unbound_volume(volume: Object) -> Object:
    """Build a volume that names no claim any more, or only the one that its maker reserved it for.

    It was bound to a claim that got another volume.
    """
    spec = dict(volume["spec"])
    annotations = dict(annotations_of(volume))
    if annotations.pop(BOUND_BY_CONTROLLER, None) is None:
        spec["claimRef"] = {k: v for k, v in (spec.get("claimRef") or {}).items() if k != "uid"}
        return {**volume, "spec": spec}
    del spec["claimRef"]
    metadata = {**volume["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**volume, "metadata": metadata, "spec": spec}


def build_bound_claim(claim: Object, volume: Object) -> Object | None:
    """Build a claim that names its volume and says that binding was completed."""
    name = volume["metadata"]["name"]
    bound = claim
    if claim["spec"].get("volumeName") != name:
        bound = {**claim, "spec": {**claim["spec"], "volumeName": name}}
        bound = with_annotation(bound, BOUND_BY_CONTROLLER, "yes")
    bound = with_annotation(bound, BIND_COMPLETED, "yes")
    return bound if bound is not claim else None


def build_claim_phase(claim: Object, phase: str, volume: Object | None) -> Object | None:
    """Build a claim in a phase; what it says of its volume comes and goes with the volume.

    The capacity is taken over once: later, growing has its own steps.
    """
    before = claim.get("status") or {}
    status = {**before, "phase": phase}
    if volume is None:
        for field in _OF_VOLUME:
            status.pop(field, None)
    else:
        status["accessModes"] = volume["spec"].get("accessModes")
        if before.get("phase") != phase:
            status["capacity"] = volume["spec"].get("capacity")
            if attributes := volume["spec"].get("volumeAttributesClassName"):
                status["currentVolumeAttributesClassName"] = attributes
    return {**claim, "status": status} if status != before else None


def build_volume_phase(volume: Object, phase: str, message: str = "") -> Object | None:
    """Build a volume in a phase; `message` says why it failed."""
    if phase_of(volume) == phase:
        return None
    status = {**(volume.get("status") or {}), "phase": phase}
    status.pop("message", None)
    return {**volume, "status": {**status, "message": message} if message else status}


def build_provisioned_claim(claim: Object, provisioner: str) -> Object | None:
    """Build a claim that tells a provisioner to make a volume."""
    if annotations_of(claim).get(PROVISIONER) == provisioner:
        return None
    annotated = with_annotation(claim, BETA_PROVISIONER, provisioner)
    return with_annotation(annotated, PROVISIONER, provisioner)


def with_annotation(obj: Object, key: str, value: str) -> Object:
    """Return an object with an annotation; the same object when it has it."""
    annotations = annotations_of(obj)
    if annotations.get(key) == value:
        return obj
    metadata = {**obj["metadata"], "annotations": {**annotations, key: value}}
    return {**obj, "metadata": metadata}
