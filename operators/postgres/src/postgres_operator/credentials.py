"""Passwords and the topology: made once, and kept."""

from __future__ import annotations

import kubewright as kw
from database_objects import ensure_object, generate_password
from kubewright.api import builtin
from postgres_operator.labels import build_labels, primary_name
from postgres_operator.models import Database
from postgres_operator.services import PORT


async def ensure_credentials(db: Database, ctx: kw.Context) -> None:
    """Make what the pods read at their start and nobody may change behind their back."""
    name, metadata = db.metadata.name, {"labels": build_labels(db)}
    words = ("postgres", "replication", "backup")
    passwords = {f"{word}-password": generate_password() for word in words}
    access = build_access(db, generate_password())
    topology = {"primary": primary_name(db), "initialized": "false"}
    for kind, suffix, content in (
        (builtin.SECRET, "credentials", {"stringData": passwords}),
        (builtin.SECRET, "app", {"stringData": access}),
        (builtin.CONFIG_MAP, "topology", {"data": topology}),
    ):
        await ensure_object(db, ctx, kind, f"{name}-{suffix}", {"metadata": metadata, **content})


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
