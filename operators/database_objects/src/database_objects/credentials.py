"""Passwords, and objects that are made once and then kept."""

from __future__ import annotations

import secrets
from typing import Any

import kubewright as kw
from kubewright.api import build_owner_reference

LENGTH = 24
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"


def generate_password() -> str:
    """Return a password of 24 letters and digits: 139 bits.

    What users paste into URLs, shells and configuration files needs no escapes.
    """
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


async def ensure_object(
    owner: Any, ctx: kw.Context, kind: kw.Resource, name: str, content: kw.Object
) -> None:
    """Create an object for an owner, where there is none of its name; else leave it as it is.

    Arguments:
        owner: the custom resource, in whose namespace the object is, and with which it goes.
        ctx: of the reconcile; its stores tell what is there.
        kind: of the object, which the operator must own.
        name: of the object.
        content: its labels, as `metadata`, and its other fields.
    """
    key = kw.NamespacedName(owner.metadata.namespace, name)
    if ctx.get(kind, key) is not None:
        return
    metadata = {
        **content.get("metadata", {}),
        "name": name,
        "namespace": key.namespace,
        "ownerReferences": [build_owner_reference(owner.to_object())],
    }
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    await ctx.create({**content, **head, "metadata": metadata})
