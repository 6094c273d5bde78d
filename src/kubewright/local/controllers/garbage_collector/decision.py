"""What becomes of an object, by the state of its owners. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from kubewright.api.metadata import ObjectMeta, OwnerReference
from kubewright.api.resource import Object
from kubewright.client.requests import Propagation
from kubewright.local.controllers.garbage_collector.graph import FOREGROUND, ORPHAN


class OwnerState(enum.Enum):
    """What is known of an owner."""

    SOLID = "solid"
    """It exists: it keeps its dependents."""
    WAITING = "waiting"
    """It is being deleted in the foreground: it waits for its dependents to go."""
    ABSENT = "absent"
    """The API server says that it does not exist."""


class Keep(msgspec.Struct, frozen=True):
    """Let the object be."""


class DropReferences(msgspec.Struct, frozen=True):
    """Keep the object and take away its references to owners that are gone or going."""

    remaining: tuple[OwnerReference, ...]


class Delete(msgspec.Struct, frozen=True):
    """Delete the object."""

    propagation: Propagation
    unblock: bool = False
    """Whether the object must stop blocking its owners first, to break a circle."""


Decision: TypeAlias = Keep | DropReferences | Delete


def plan_collection(
    meta: ObjectMeta,
    owners: Mapping[str, OwnerState],
    *,
    has_dependents: bool,
    in_circle: bool = False,
) -> Decision:
    """Decide what becomes of an object that is not being deleted.

    One solid owner keeps it. Without any it is deleted: in the foreground when an owner waits and
    it has dependents of its own, so that the owner's wish reaches down to them.

    Args:
        meta: The object's metadata as the API server has it now.
        owners: The state of each owner, by UID.
        has_dependents: Whether other objects depend on it.
        in_circle: Whether one of its dependents is itself deleted in the foreground, and so would
            wait for this object while this object waits for it.
    """
    references = meta.owner_references or []
    if not references:
        return Keep()
    states = [owners[reference.uid] for reference in references]
    if OwnerState.SOLID in states:
        solid = [r for r in references if owners[r.uid] is OwnerState.SOLID]
        return Keep() if len(solid) == len(references) else DropReferences(tuple(solid))
    if OwnerState.WAITING in states and has_dependents:
        return Delete("Foreground", unblock=in_circle)
    return Delete(_own_policy(meta))


def _own_policy(meta: ObjectMeta) -> Propagation:
    """Return the deletion that finalizers on the object already ask for."""
    finalizers = meta.finalizers or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def build_reference(reference: OwnerReference) -> Object:
    """Build a reference as JSON has it."""
    written: Object = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller is not None:
        written["controller"] = reference.controller
    if reference.block_owner_deletion is not None:
        written["blockOwnerDeletion"] = reference.block_owner_deletion
    return written


def build_references_patch(meta: ObjectMeta, references: tuple[OwnerReference, ...]) -> Object:
    """Build the merge patch that leaves these references, if the object is still as it was read."""
    return {
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "ownerReferences": [build_reference(ref) for ref in references] or None,
        }
    }


def build_finalizer_patch(meta: ObjectMeta, finalizer: str) -> Object:
    """Build the merge patch that takes a finalizer off, if the object is still as it was read."""
    remaining = [name for name in meta.finalizers or () if name != finalizer]
    return {
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": remaining or None,
        }
    }
