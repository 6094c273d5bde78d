"""Objects of a kind in the store whose versions a webhook converts."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.resource import Object
from kubewright.local.apiserver.conversion import (
    ConversionFailed,
    ConversionUnanswered,
    ObjectNotDecodable,
    StorageReadError,
    VersionConverter,
)
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.storage import (
    ObjectStorage,
    Stored,
    decode_json,
    encode_object,
    type_head,
)
from kubewright.local.store import Item, Version, VersionedStore

# A review holds at most so many objects: a webhook must answer it within its timeout.
_MOST_OBJECTS = 250


class ConvertedStorage(ObjectStorage):
    """The objects of one kind, seen in a version that a webhook makes of the stored one.

    Whoever reads objects of another version or writes one waits for the webhook, in `get`, `add`,
    `replace`, `rehearse` and `texts`. Objects that are stored in the kind's own version need none.
    An object is written only after it was converted, in one step with its check: what happened
    meanwhile is found as it is for every other write.
    """

    def __init__(
        self, store: VersionedStore, kind: ServedKind, converter: VersionConverter, since: int
    ) -> None:
        super().__init__(store, kind, kind, since)
        self._converter = converter
        self._stored_version = kind.stored_as.api_version
        self._stored_head = type_head(self._stored_version, kind.resource.kind)

    async def get(self, namespace: str, name: str) -> Stored | None:
        """Read the newest version of an object.

        Raises:
            ObjectNotDecodable: the webhook does not convert it.
        """
        key = self.key(namespace, name)
        version = self.store.get(key)
        if version is None:
            return None
        (text,) = await self._shown([version])
        if isinstance(text, ObjectNotDecodable):
            raise text
        return Stored(key, text, version.revision)

    async def texts(self, items: Sequence[Item]) -> list[bytes]:
        """Return the texts of items in the kind's version.

        Raises:
            StorageReadError: the webhook does not convert some of them; the causes name them.
        """
        shown = await self._shown([item.version for item in items])
        failed = [
            (item.key, text)
            for item, text in zip(items, shown, strict=True)
            if isinstance(text, ObjectNotDecodable)
        ]
        if failed:
            resource = self.kind.resource
            raise StorageReadError.of(resource.group, resource.plural, failed)
        return [text for text in shown if isinstance(text, bytes)]

    async def add(self, key: str, obj: Object) -> Stored:
        """Store a new object; its resourceVersion becomes that of the write.

        Raises:
            KeyExists: there is one already.
            ConversionFailed: the webhook does not convert it.
            ServiceUnavailable: the disk did not take the write.
        """
        if self._stored_head == self.head:
            return self.create(key, obj)
        stored = await self._to_stored(obj)
        revision = self._stamp(stored)
        self._create(key, self._encode_stored(stored))
        return Stored(key, await self._from_stored(stored), revision)

    async def replace(self, current: Stored, obj: Object) -> Stored:
        """Replace an object; its resourceVersion becomes that of the write.

        Raises:
            KeyMissing: it is gone.
            RevisionMismatch: it was written since.
            ConversionFailed: the webhook does not convert it.
            ServiceUnavailable: the disk did not take the write.
        """
        if self._stored_head == self.head:
            return self.update(current, obj)
        stored = await self._to_stored(obj)
        revision = self._stamp(stored)
        self._update(current, self._encode_stored(stored))
        return Stored(current.key, await self._from_stored(stored), revision)

    async def rehearse(self, obj: Object) -> bytes:
        """Return what a write of the object would answer, without writing it.

        Raises:
            ConversionFailed: the webhook does not convert it.
        """
        if self._stored_head == self.head:
            return self.encode(obj)
        return await self._from_stored(await self._to_stored(obj))

    def _converted(self, raw: bytes) -> bytes:
        if not raw.startswith(self.head):
            raise RuntimeError(f"objects of {self.prefix} are converted by a webhook: await texts")
        obj = decode_json(raw)
        self._converter.complete(obj)
        return self.encode(obj)

    def _encode_stored(self, obj: Object) -> bytes:
        return encode_object(self._stored_head, obj)

    async def _to_stored(self, obj: Object) -> Object:
        resource = self.kind.resource
        typed = {**obj, "kind": resource.kind, "apiVersion": resource.api_version}
        (stored,) = await self._converter.convert([typed], self._stored_version)
        self._converter.prune(stored)
        return stored

    async def _from_stored(self, stored: Object) -> bytes:
        self._converter.complete(stored)
        (obj,) = await self._converter.convert([stored], self.kind.resource.api_version)
        self._converter.prune(obj)
        return self.encode(obj)

    async def _shown(self, versions: Sequence[Version]) -> list[bytes | ObjectNotDecodable]:
        foreign = [v for v in versions if not (v.value or b"").startswith(self.head)]
        converted: list[bytes | ObjectNotDecodable] = []
        for start in range(0, len(foreign), _MOST_OBJECTS):
            converted += await self._show_batch(foreign[start : start + _MOST_OBJECTS])
        rest = iter(converted)
        return [
            self.convert(version) if (version.value or b"").startswith(self.head) else next(rest)
            for version in versions
        ]

    async def _show_batch(self, versions: Sequence[Version]) -> list[bytes | ObjectNotDecodable]:
        """Convert versions in one review; where it fails, each by itself, to tell which are bad."""
        objects = [decode_json(version.value or b"{}") for version in versions]
        for obj in objects:
            self._converter.complete(obj)
        try:
            converted = await self._converter.convert(objects, self.kind.resource.api_version)
        except ConversionFailed as error:
            if len(versions) == 1 or isinstance(error, ConversionUnanswered):
                return [ObjectNotDecodable.of(version.revision, error) for version in versions]
            alone = [await self._show_batch([version]) for version in versions]
            return [text for texts in alone for text in texts]
        for obj in converted:
            self._converter.prune(obj)
        return [self.encode(obj) for obj in converted]
