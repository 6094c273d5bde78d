"""Writing the history: adopt, create, bring back to the front, truncate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, NotFound
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.local.controllers.history.revision import (
    Revision,
    build_data,
    build_hash,
    build_revision,
    sort_revisions,
)
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.ownership import (
    apply_ownership,
    find_candidates,
    plan_ownership,
)
from kubewright.runtime.context import Context


class History(msgspec.Struct, frozen=True):
    """The revisions of a workload in their order, and which of them is the template of now.

    `collisions` counts names that were taken by something else; it belongs into the status.
    """

    revisions: tuple[Revision, ...]
    update: Revision
    collisions: int

    def find(self, name: str | None) -> Revision | None:
        """Return the revision of a name."""
        return next((r for r in self.revisions if r.name == name), None)


async def claim_revisions(ctx: Context, owner: Object, kind: Resource) -> list[Revision]:
    """Adopt the revisions that match a workload's selector, and return all it has in order."""
    selector = LabelSelector.of(owner["spec"].get("selector"))
    candidates = find_candidates(ctx.store(builtin.CONTROLLER_REVISION), owner, selector)
    claim = plan_ownership(owner, selector, candidates)
    # One that stopped matching stays: a selector cannot change, so somebody relabelled it.
    claim.owned += claim.release
    claim.release = []
    owned = await apply_ownership(ctx, owner, kind, builtin.CONTROLLER_REVISION, claim)
    return sort_revisions(owned)


async def ensure_revision(
    ctx: Context, owner: Object, revisions: Sequence[Revision], *, hash_label: str, salt: str = ""
) -> History:
    """Make the template of now the last revision.

    An equal revision is brought to the front instead of making a second one: to go back keeps the
    pods that have it already. Guarantee: a repetition after a crash finds the revision by its name,
    which follows from the template.

    Args:
        ctx: Of the reconcile.
        owner: The decoded workload.
        revisions: Those it has, in order.
        hash_label: The label that holds the hash.
        salt: Tells kinds of workloads apart that may have one name and one template.
    """
    data = build_data(owner["spec"]["template"])
    collisions = int((owner.get("status") or {}).get("collisionCount") or 0)
    number = revisions[-1].number + 1 if revisions else 1
    equal = [revision for revision in revisions if revision.data == data]
    if equal and revisions[-1].data == data:
        return History(tuple(revisions), revisions[-1], collisions)
    if equal:
        raised = Revision(await ctx.replace({**equal[-1].obj, "revision": number}))
        others = [revision for revision in revisions if revision.name != raised.name]
        return History((*others, raised), raised, collisions)
    while True:
        hashed = build_hash(data, salt + str(collisions))
        made = await _create(ctx, build_revision(owner, data, number, hashed, hash_label))
        if made is not None:
            return History((*revisions, made), made, collisions)
        collisions += 1


async def _create(ctx: Context, revision: Object) -> Revision | None:
    """Create a revision; None when its name is taken by one of another template."""
    try:
        return Revision(await ctx.create(revision))
    except AlreadyExists:
        metadata = revision["metadata"]
        live = Revision(
            await ctx.client.get(
                builtin.CONTROLLER_REVISION, metadata["name"], namespace=metadata["namespace"]
            )
        )
        return live if live.data == revision["data"] else None


async def delete_revisions(ctx: Context, revisions: Iterable[Revision]) -> None:
    """Delete revisions, each only as it was seen: one that came back to use stays."""
    for revision in revisions:
        metadata = revision.obj["metadata"]
        try:
            await ctx.delete(
                builtin.CONTROLLER_REVISION,
                NamespacedName.of(revision.obj),
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
            )
        except NotFound:
            continue
