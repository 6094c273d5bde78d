"""Passwords: made once, and kept."""

from __future__ import annotations

import kubewright as kw
from database_objects import ensure_object, generate_password
from kubewright.api import builtin
from mysql_operator.models import MySQL
from mysql_operator.server import build_labels, secret_name

KEYS = ("password", "root-password", "backup-password", "restore-password")


async def ensure_secret(db: MySQL, ctx: kw.Context) -> None:
    """Make the Secret, where there is none."""
    names = {"username": db.spec.database_user, "database": db.spec.database_name}
    content = {
        "metadata": {"labels": build_labels(db)},
        "stringData": {**names, **{word: generate_password() for word in KEYS}},
    }
    await ensure_object(db, ctx, builtin.SECRET, secret_name(db), content)
