"""Passwords and the topology: made once, and kept."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import kubewright as kw
from kubewright.api import build_owner_reference, builtin
from postgres_operator.labels import build_labels, primary_name
from postgres_operator.models import Database
from postgres_operator.services import PORT

# Letters and digits alone: what users paste into URLs and shells needs no escapes.
LENGTH = 24
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"


def generate_password() -> str:
    """Return a password of 24 letters and digits: 138 bits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


async def ensure_credentials(db: Database, ctx: kw.Context) -> None:
    """Make what the pods read at their start and nobody may change behind their back."""
    name = db.metadata.name
    words = ("postgres", "replication", "backup")
    passwords = {f"{word}-password": generate_password() for word in words}
    await _ensure(db, ctx, builtin.SECRET, f"{name}-credentials", {"stringData": passwords})
    access = build_access(db, generate_password())
    await _ensure(db, ctx, builtin.SECRET, f"{name}-app", {"stringData": access})
    topology = {"primary": primary_name(db), "initialized": "false"}
    await _ensure(db, ctx, builtin.CONFIG_MAP, f"{name}-topology", {"data": topology})


def build_access(db: Database, password: str) -> dict[str, str]:
    """Build what an application needs to connect, for its environment."""
    host = f"{db.metadata.name}.{db.metadata.namespace}.svc.cluster.local"
    user, database = db.spec.owner, db.spec.database
    return {
        "username": user,
        "password": password,
        "database": database,
        "host": host,
        "port": str(PORT),
        "uri": f"postgresql://{user}:{password}@{host}:{PORT}/{database}",
    }


async def _ensure(
    db: Database, ctx: kw.Context, kind: kw.Resource, name: str, content: Mapping[str, object]
) -> None:
    key = kw.NamespacedName(db.metadata.namespace, name)
    if ctx.get(kind, key) is not None:
        return
    metadata = {
        "name": name,
        "namespace": key.namespace,
        "labels": build_labels(db),
        "ownerReferences": [build_owner_reference(db.to_object())],
    }
    await ctx.create(
        {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
    )


async def note_initialized(db: Database, ctx: kw.Context) -> None:
    """Note that the primary holds data: from then on an empty volume is a loss, not a beginning."""
    key = kw.NamespacedName(db.metadata.namespace, f"{db.metadata.name}-topology")
    topology = ctx.get(builtin.CONFIG_MAP, key)
    if topology is not None and topology["data"].get("initialized") != "true":
        await ctx.patch(builtin.CONFIG_MAP, key, {"data": {"initialized": "true"}})
