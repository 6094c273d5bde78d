"""What a store keeps of an object, and what it tells of a change."""

from __future__ import annotations

import enum
from typing import NamedTuple

from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.client.kind import ObjectClass, T
from kubewright.client.objects import RawObject, decode_object

_PARTIAL = "PartialObjectMetadata"


class Entry:
    """An object in a store: its JSON text and its metadata. Never changed, only replaced.

    `error` says why the metadata could not be decoded whole; `meta` then holds only what could be
    saved of name, namespace, uid and resource version.
    """

    __slots__ = ("error", "key", "meta", "raw", "resource")

    def __init__(self, resource: Resource, obj: RawObject) -> None:
        self.resource = resource
        self.meta: ObjectMeta = obj.meta
        self.raw = obj.raw
        self.error = obj.error
        self.key: NamespacedName = obj.meta.key

    def object(self) -> Object:
        """Decode a fresh dict that the caller may change; it always has apiVersion and kind."""
        obj = decode_object(self.raw, self.resource)
        if obj["kind"] == _PARTIAL:
            obj["apiVersion"], obj["kind"] = self.resource.api_version, self.resource.kind
        return obj

    def decode(self, kind: ObjectClass[T]) -> T:
        """Decode an instance of a custom resource class."""
        return kind.decode(self.raw)

    def __repr__(self) -> str:
        return f"<Entry {self.resource} {self.key} at {self.meta.resource_version}>"


class ChangeType(enum.Enum):
    """What became of an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(NamedTuple):
    """A difference between two states of a store.

    `old` is what the store had before. A deleted object's `entry` is its last known state, which is
    older than its deletion where that happened while nobody watched.
    """

    type: ChangeType
    entry: Entry
    old: Entry | None = None
