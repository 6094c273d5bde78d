"""What volumes need and a StatefulSet cannot say: they grow, but its template never changes."""

from __future__ import annotations

import kubewright as kw
from database_objects import is_smaller
from kubewright.api import builtin
from postgres_operator.instances import VOLUME
from postgres_operator.labels import build_selector
from postgres_operator.models import Database


async def replace_template(db: Database, ctx: kw.Context) -> None:
    """Take a StatefulSet away whose template of claims is an old one; its pods go on.

    The engine makes it anew, and that adopts the pods.
    """
    key = kw.NamespacedName(db.metadata.namespace, db.metadata.name)
    stateful_set = ctx.get(builtin.STATEFUL_SET, key)
    if stateful_set is None or stateful_set["metadata"].get("deletionTimestamp"):
        return
    templates = stateful_set["spec"].get("volumeClaimTemplates") or []
    if any(is_smaller(claim, db.spec.storage) for claim in templates):
        uid = stateful_set["metadata"]["uid"]
        await ctx.delete(builtin.STATEFUL_SET, key, uid=uid, propagation="Orphan")


async def grow_volumes(db: Database, ctx: kw.Context) -> None:
    """Ask for larger volumes, where they are smaller than what the database asks for."""
    namespace = db.metadata.namespace
    labels = build_selector(db)
    for claim in ctx.list(builtin.PERSISTENT_VOLUME_CLAIM, namespace=namespace, labels=labels):
        name = claim["metadata"]["name"]
        if name.startswith(f"{VOLUME}-{db.metadata.name}-") and is_smaller(claim, db.spec.storage):
            wanted = {"spec": {"resources": {"requests": {"storage": db.spec.storage}}}}
            key = kw.NamespacedName(namespace, name)
            await ctx.patch(builtin.PERSISTENT_VOLUME_CLAIM, key, wanted)
