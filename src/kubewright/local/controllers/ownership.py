"""Which objects a controller claims: what it owns, adopts, and lets go.

A workload owns the objects that refer to it as their controller and match its selector. It adopts
matching objects without a controller and releases those that stopped matching. This is decided
here; `apply_ownership` carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from kubewright.api.errors import Invalid, NotFound
from kubewright.api.metadata import build_owner_reference, controller_of
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.client.requests import PatchType
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.runtime.context import Context


class Ownership(msgspec.Struct):
    """What to do with the candidates: `owned` need no write."""

    owned: list[Object] = []
    adopt: list[Object] = []
    release: list[Object] = []


def find_candidates(
    store: Store,
    owner: Object,
    selector: LabelSelector,
    *,
    read: Callable[[Entry], Object] = Entry.object,
) -> list[Object]:
    """Return the objects of the owner's namespace that it controls or may adopt.

    Metadata decides, so that only what matters is decoded, which `read` does.
    """
    metadata = owner["metadata"]
    found = []
    for entry in store.list(namespace=metadata["namespace"]):
        controller = entry.meta.controller
        mine = controller is not None and controller.uid == metadata["uid"]
        if mine or (controller is None and selector.matches(entry.meta.labels)):
            found.append(read(entry))
    return found


def is_anybody(_: Object) -> bool:
    """Let every candidate be a member."""
    return True


def plan_ownership(
    owner: Object,
    selector: LabelSelector,
    candidates: Iterable[Object],
    *,
    is_member: Callable[[Object], bool] = is_anybody,
) -> Ownership:
    """Sort candidates of the owner's namespace by what its claim to them is.

    An owner that is being deleted neither adopts nor releases, and what is being deleted is not
    adopted: both would fight the garbage collector. `is_member` is asked beside the selector: a
    StatefulSet claims pods of its names only.
    """
    ownership = Ownership()
    uid = owner["metadata"]["uid"]
    leaving = owner["metadata"].get("deletionTimestamp") is not None
    for candidate in candidates:
        metadata = candidate["metadata"]
        controller = controller_of(candidate)
        matches = selector.matches(metadata.get("labels")) and is_member(candidate)
        if controller is not None:
            if controller["uid"] == uid and matches:
                ownership.owned.append(candidate)
            elif controller["uid"] == uid and not leaving:
                ownership.release.append(candidate)
        elif matches and not leaving and metadata.get("deletionTimestamp") is None:
            ownership.adopt.append(candidate)
    return ownership


def build_adoption(owner: Object, adopted: Object, finalizers: Sequence[str] = ()) -> Object:
    """Build the patch that makes `owner` the controller; it fails on another object of the name."""
    metadata: Object = {
        "uid": adopted["metadata"]["uid"],
        "ownerReferences": [build_owner_reference(owner)],
    }
    return {"metadata": {**metadata, **({"finalizers": [*finalizers]} if finalizers else {})}}


def build_release(owner: Object, released: Object, finalizers: Sequence[str] = ()) -> Object:
    """Build the patch that takes the owner's reference away, and its finalizers with it."""
    reference = {"$patch": "delete", "uid": owner["metadata"]["uid"]}
    metadata: Object = {"uid": released["metadata"]["uid"], "ownerReferences": [reference]}
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = [*finalizers]
    return {"metadata": metadata}


async def apply_ownership(
    ctx: Context,
    owner: Object,
    resource: Resource,
    kind: Resource,
    ownership: Ownership,
    *,
    finalizers: Sequence[str] = (),
) -> list[Object]:
    """Adopt and release as planned; return all objects that the owner now controls.

    `finalizers` are what the owner keeps its objects by: they come and go with its reference.

    Before the first adoption the owner is read from the server: a cache may still show an owner
    that is gone, and an object adopted by it would be collected.
    """
    claimed = list(ownership.owned)
    if ownership.adopt and await _is_current(ctx, owner, resource):
        for candidate in ownership.adopt:
            patch = build_adoption(owner, candidate, finalizers)
            adopted = await _patch(ctx, kind, candidate, patch)
            claimed += [adopted] if adopted is not None else []
    for candidate in ownership.release:
        await _patch(ctx, kind, candidate, build_release(owner, candidate, finalizers))
    return claimed


async def _is_current(ctx: Context, owner: Object, resource: Resource) -> bool:
    metadata = owner["metadata"]
    try:
        live = await ctx.client.get(resource, metadata["name"], namespace=metadata.get("namespace"))
    except NotFound:
        return False
    same = live["metadata"]["uid"] == metadata["uid"]
    return same and live["metadata"].get("deletionTimestamp") is None


async def _patch(ctx: Context, kind: Resource, obj: Object, patch: Object) -> Object | None:
    """Patch metadata; an object that is gone, or was made anew under its name, is let be."""
    try:
        return await ctx.patch(kind, NamespacedName.of(obj), patch, type=PatchType.STRATEGIC)
    except (NotFound, Invalid):
        return None
