"""A ControllerRevision: a template that a workload had, and its place in the history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object

# Letters of generated names: no vowels and no look-alikes, so that no words appear.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
_PREFIX_LENGTH = 223
# Go writes these characters of JSON texts as escapes; without them the hash would be another.
_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


class Revision(msgspec.Struct, frozen=True, dict=True):
    """Typed reads of a decoded ControllerRevision."""

    obj: Object

    @property
    def name(self) -> str:
        """The name: what pods of a StatefulSet are labelled with."""
        return str(self.obj["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""
        return self.obj["metadata"].get("labels") or {}

    @property
    def number(self) -> int:
        """The place in the history; the highest one is the template of now."""
        return int(self.obj.get("revision") or 0)

    @cached_property
    def data(self) -> Object:
        """What it restores, without what an older server wrote of nothing."""
        data: Object = without_nulls(self.obj.get("data") or {})
        return data

    @property
    def template(self) -> Object:
        """The pod template that it restores."""
        template = (self.data.get("spec") or {}).get("template") or {}
        return {key: value for key, value in template.items() if key != "$patch"}


def without_nulls(value: Any) -> Any:
    """Return a JSON value without fields that are null: they say as much as no field."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def build_data(template: Object) -> Object:
    """Build what a revision keeps: a strategic merge patch that puts the template back whole."""
    return {"spec": {"template": {"$patch": "replace", **without_nulls(template)}}}


def build_hash(data: Object, probe: str) -> str:
    """Compute the hash of a revision as kube-controller-manager does (FNV-1 of its JSON).

    `probe` is the count of collisions: another one gives another hash.
    """
    text = msgspec.json.encode(data, order="sorted").decode()
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    number = _FNV_OFFSET
    for byte in (text + probe).encode():
        number = (number * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def build_name(owner: Object, hashed: str) -> str:
    """Build the name of a revision of a workload."""
    return f"{owner['metadata']['name'][:_PREFIX_LENGTH]}-{hashed}"


def build_revision(
    owner: Object, data: Object, number: int, hashed: str, hash_label: str
) -> Object:
    """Build a revision that a workload owns.

    Args:
        owner: The decoded workload.
        data: What the revision restores.
        number: Its place in the history.
        hashed: Its hash.
        hash_label: The label that holds the hash: each kind of workload has its own.
    """
    template = owner["spec"]["template"].get("metadata") or {}
    metadata: Object = {
        "name": build_name(owner, hashed),
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(template.get("labels") or {}), hash_label: hashed},
        "ownerReferences": [build_owner_reference(owner)],
    }
    if annotations := owner["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": data,
        "revision": number,
    }


def sort_revisions(revisions: Iterable[Object]) -> list[Revision]:
    """Order revisions by their place in the history; of two in one place the older comes first."""

    def place(revision: Revision) -> tuple[int, str, str]:
        metadata = revision.obj["metadata"]
        return revision.number, metadata.get("creationTimestamp") or "", revision.name

    return sorted((Revision(obj) for obj in revisions), key=place)


def find_surplus(revisions: Iterable[Revision], live: Iterable[str], limit: int) -> list[Revision]:
    """Return the oldest revisions beyond the limit; what is live neither counts nor goes.

    Args:
        revisions: All revisions in their order.
        live: The names of those that pods have, or that pods are made of.
        limit: How many others are kept.
    """
    kept = set(live)
    historic = [revision for revision in revisions if revision.name not in kept]
    return historic[: max(len(historic) - limit, 0)]
