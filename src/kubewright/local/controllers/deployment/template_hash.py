"""The hash of a pod template: the label and name suffix that tell ReplicaSets apart."""

from __future__ import annotations

import hashlib

import msgspec

from kubewright.api.resource import Object

LABEL = "pod-template-hash"

# The API's alphabet for generated names: no vowels and no look-alikes, so that no words appear.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 10


def build_template_hash(template: Object, collisions: int) -> str:
    """Compute the hash of a pod template.

    The same template gives the same hash for ever, whatever the order of its keys. `collisions` is
    the Deployment's `collisionCount`: a taken name is left by counting it up.
    """
    text = msgspec.json.encode([template, collisions], order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest()[-8:])
    digits = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def is_same_template(one: Object, other: Object) -> bool:
    """Tell whether two pod templates are equal but for the hash label."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Object) -> Object:
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != LABEL}
    metadata["labels"] = labels
    return {**template, "metadata": metadata}
