"""Passwords: made once, and kept."""

from __future__ import annotations

import secrets

import kubewright as kw
from kubewright.api import build_owner_reference, builtin
from mysql_operator.models import MySQL
from mysql_operator.server import build_labels, secret_name

# Letters and digits alone: what users paste into URLs and shells needs no escapes.
LENGTH = 24
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
KEYS = ("password", "root-password", "backup-password", "restore-password")


def generate_password() -> str:
    """Return a password of 24 letters and digits: 138 bits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


async def ensure_secret(db: MySQL, ctx: kw.Context) -> None:
    """Make the Secret, where there is none."""
    key = kw.NamespacedName(db.metadata.namespace, secret_name(db))
    if ctx.get(builtin.SECRET, key) is not None:
        return
    names = {"username": db.spec.database_user, "database": db.spec.database_name}
    await ctx.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": build_labels(db),
                "ownerReferences": [build_owner_reference(db.to_object())],
            },
            "stringData": {**names, **{word: generate_password() for word in KEYS}},
        }
    )
