"""Objects of one kind in the store: their keys, their bytes, their versions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubewright.api.errors import ServiceUnavailable
from kubewright.api.metadata import ObjectMeta, decode_metadata
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import encode_json
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.objectmeta import order_metadata
from kubewright.local.store import Item, LogWriteFailed, Version, VersionedStore

decode_json = msgspec.json.Decoder(Object).decode


def type_head(api_version: str, kind: str) -> bytes:
    """Return how the text of every stored object of a type begins."""
    return b'{"kind":' + encode_json(kind) + b',"apiVersion":' + encode_json(api_version) + b","


def key_prefix(group: str, plural: str) -> str:
    """Return the prefix of the keys of a resource, of whatever version."""
    return f"/registry/{group or 'core'}/{plural}/"


class Stored(msgspec.Struct, frozen=True):
    """An object as it was read: its key, its JSON text in the kind's version, its revision."""

    key: str
    raw: bytes
    revision: int

    def object(self) -> Object:
        """Decode a fresh object."""
        return decode_json(self.raw)

    def meta(self) -> ObjectMeta:
        """Decode the metadata alone."""
        return decode_metadata(self.raw)


class ObjectStorage:
    """The objects of one kind, seen in the kind's version and written in the stored one.

    Every stored text begins with the same bytes for kind and apiVersion, carries its own
    resourceVersion, and is what GET answers. Items of built-in lists are the same without that
    beginning.

    Objects of custom kinds that were written at or before `since` may be of an older schema: they
    are pruned and defaulted when they are read, as the API server does with what it reads of etcd.

    The verbs use what is awaited, which waits only where a webhook converts (`ConvertedStorage`);
    the rest is for kinds that are known not to need one.
    """

    def __init__(
        self, store: VersionedStore, kind: ServedKind, storage: ServedKind, since: int = 0
    ) -> None:
        self.store = store
        self._since = since if kind.is_custom else 0
        self.kind = kind
        self._storage = storage
        resource, stored = kind.resource, storage.resource
        self.prefix = key_prefix(kind.stored_as.group, kind.stored_as.plural)
        self.head = type_head(resource.api_version, resource.kind)
        self._stored_head = type_head(stored.api_version, stored.kind)

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object."""
        return f"{self.prefix}{namespace}/{name}" if namespace else f"{self.prefix}{name}"

    def scope(self, namespace: str) -> str:
        """Return the prefix of the keys of a namespace, or of all objects."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix

    def read(self, namespace: str, name: str) -> Stored | None:
        """Read the newest version of an object."""
        key = self.key(namespace, name)
        version = self.store.get(key)
        return None if version is None else self.view(key, version)

    async def get(self, namespace: str, name: str) -> Stored | None:
        """Read the newest version of an object."""
        return self.read(namespace, name)

    async def texts(self, items: Sequence[Item]) -> list[bytes]:
        """Return the texts of items in the kind's version."""
        return [self.convert(item.version) for item in items]

    async def add(self, key: str, obj: Object) -> Stored:
        """Store a new object, as `create` does."""
        return self.create(key, obj)

    async def replace(self, current: Stored, obj: Object) -> Stored:
        """Replace an object, as `update` does."""
        return self.update(current, obj)

    async def rehearse(self, obj: Object) -> bytes:
        """Return what a write of the object would answer, without writing it."""
        return self.encode(obj)

    def stored_meta(self, key: str) -> ObjectMeta | None:
        """Return the metadata of the object at a key, as it is stored; None where there is none."""
        version = self.store.get(key)
        return None if version is None else decode_metadata(version.value or b"{}")

    def view(self, key: str, version: Version) -> Stored:
        """Show a stored version in the kind's version."""
        return Stored(key, self.convert(version), version.revision)

    def convert(self, version: Version) -> bytes:
        """Return a stored text in the kind's version; it is the same text where they agree."""
        raw = version.value or b""
        return raw if self.is_plain(version) else self._converted(raw)

    def _converted(self, raw: bytes) -> bytes:
        obj = decode_json(raw)
        if self.kind.convert:
            obj = self.kind.convert(obj)
        return self.encode(obj)

    def is_plain(self, version: Version) -> bool:
        """Tell whether a stored text is one of the kind's version and schema already."""
        return version.revision > self._since and (version.value or b"").startswith(self.head)

    def item(self, raw: bytes) -> bytes:
        """Return the text of a list's item: built-in lists leave out kind and apiVersion."""
        return raw if self.kind.is_custom else b"{" + raw[len(self.head) :]

    def encode(self, obj: Object) -> bytes:
        """Write an object in the kind's version."""
        metadata = order_metadata(obj["metadata"], is_custom=self.kind.is_custom)
        return encode_object(self.head, {**obj, "metadata": metadata})

    def create(self, key: str, obj: Object) -> Stored:
        """Store a new object; its resourceVersion becomes that of the write.

        Raises:
            KeyExists: there is one already.
            ServiceUnavailable: the disk did not take the write.
        """
        revision = self._stamp(obj)
        raw = self.encode(obj)
        stored = self._stored(obj, raw)
        self._create(key, stored)
        return Stored(key, self._answered(stored, raw), revision)

    def update(self, current: Stored, obj: Object) -> Stored:
        """Replace an object; its resourceVersion becomes that of the write.

        Raises:
            KeyMissing: it is gone.
            RevisionMismatch: it was written since.
            ServiceUnavailable: the disk did not take the write.
        """
        revision = self._stamp(obj)
        raw = self.encode(obj)
        stored = self._stored(obj, raw)
        self._update(current, stored)
        return Stored(current.key, self._answered(stored, raw), revision)

    def delete(self, current: Stored) -> int:
        """Delete an object and return the revision of its deletion.

        Raises:
            KeyMissing: it is gone.
            RevisionMismatch: it was written since.
            ServiceUnavailable: the disk did not take the write.
        """
        try:
            return self.store.delete(current.key, current.revision).revision
        except LogWriteFailed as error:
            raise ServiceUnavailable(str(error)) from error

    def _create(self, key: str, text: bytes) -> None:
        try:
            self.store.create(key, text)
        except LogWriteFailed as error:
            raise ServiceUnavailable(str(error)) from error

    def _update(self, current: Stored, text: bytes) -> None:
        try:
            self.store.update(current.key, text, current.revision)
        except LogWriteFailed as error:
            raise ServiceUnavailable(str(error)) from error

    def _stamp(self, obj: Object) -> int:
        revision = self.store.next_revision
        obj["metadata"]["resourceVersion"] = str(revision)
        return revision

    def _answered(self, stored: bytes, raw: bytes) -> bytes:
        """Return what a write answers: what storage kept, which another version may cut."""
        return raw if stored is raw else self._converted(stored)

    def _stored(self, obj: Object, raw: bytes) -> bytes:
        if self._stored_head == self.head:
            return raw
        if self._storage.convert:
            obj = self._storage.convert(decode_json(raw))
        return encode_object(self._stored_head, obj)


def encode_object(head: bytes, obj: Object) -> bytes:
    """Write an object under the head of its type."""
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return head + encode_json(rest)[1:]


def with_revision(raw: bytes, revision: int) -> bytes:
    """Return an object's text with another resourceVersion (watch events of deletions)."""
    obj = decode_json(raw)
    obj["metadata"]["resourceVersion"] = str(revision)
    return encode_json(obj)
