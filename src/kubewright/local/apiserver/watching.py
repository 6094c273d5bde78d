"""Watches: one event of the store encoded once and fanned out to all who watch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from kubewright.api.errors import APIError
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import encode_json
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.reader_signal import ReaderSignal
from kubewright.local.apiserver.selectors import FieldSelector, LabelSelector
from kubewright.local.apiserver.storage import ObjectStorage, decode_json, with_revision
from kubewright.local.store import Change, Item, Version, VersionedStore

Encode = Callable[[str, bytes, bool], bytes]
"""Turns an event's type and the object's JSON text into one frame; tells the stream's first."""


MOST_BYTES = 32 * 1024 * 1024
"""A watch whose reader lets more than this pile up is dropped."""


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels = msgspec.field(default_factory=_Labels)


_decode_labels = msgspec.json.Decoder(_Labelled).decode


def labels_of(raw: bytes) -> dict[str, str]:
    """Decode the labels alone."""
    return _decode_labels(raw).metadata.labels or {}


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a kind a list or a watch is about."""

    labels: LabelSelector
    fields: FieldSelector

    def __bool__(self) -> bool:
        return bool(self.labels) or bool(self.fields)

    def matches(self, storage: ObjectStorage, key: str, raw: bytes) -> bool:
        """Tell whether the object at a key, in the kind's version, is selected."""
        return self.admits(raw, FieldReader(storage, key, raw))

    def admits(self, raw: bytes, fields: FieldReader) -> bool:
        """Tell whether an object is selected whose fields are read already, or may be."""
        if self.labels and not self.labels.matches(labels_of(raw)):
            return False
        return not self.fields or self.fields.matches(fields)


class FieldReader:
    """Reads the fields of an object that field selectors may name; decodes it only if it must."""

    def __init__(self, storage: ObjectStorage, key: str, raw: bytes) -> None:
        self._storage = storage
        self._key = key
        self._raw = raw
        self._fields: dict[str, str] | None = None

    def __call__(self, name: str) -> str:
        """Return a field's value; empty where the object has none."""
        if name in ("metadata.name", "metadata.namespace"):
            namespace, _, own = self._key.removeprefix(self._storage.prefix).rpartition("/")
            return own if name == "metadata.name" else namespace
        if self._fields is None:
            obj = decode_json(self._raw)
            self._fields = dict(self._storage.kind.strategy.selectable_fields(obj))
        return self._fields.get(name, "")


class Event(msgspec.Struct):
    """A change as a kind's watchers see it, with what was computed of it, shared by all of them."""

    change: Change
    _views: dict[object, bytes] = {}
    _frames: dict[object, bytes] = {}
    _fields: dict[object, FieldReader] = {}
    _learning: dict[bytes, asyncio.Lock] | None = None

    @property
    def is_deletion(self) -> bool:
        """Tell whether the object is gone after the change."""
        return self.change.version.value is None

    @property
    def is_creation(self) -> bool:
        """Tell whether there was no object before the change."""
        previous = self.change.previous
        return previous is None or previous.value is None

    def is_selected(self, selection: Selection, storage: ObjectStorage, raw: bytes) -> bool:
        """Tell whether the object, before or after the change, is selected.

        Each node watches the pods of its own: the fields are read once for all of them.
        """
        key = (storage, raw)
        fields = self._fields.get(key)
        if fields is None:
            fields = self._fields[key] = FieldReader(storage, self.change.key, raw)
        return selection.admits(raw, fields)

    def current(self, storage: ObjectStorage) -> bytes | None:
        """The object after the change, in the kind's version; None where it was deleted."""
        version = self.change.version
        return None if version.value is None else self._view(storage, version)

    def previous(self, storage: ObjectStorage) -> bytes | None:
        """The object before the change; None where it was created."""
        version = self.change.previous
        if version is None or version.value is None:
            return None
        return self._view(storage, version)

    def departed(self, storage: ObjectStorage) -> bytes:
        """The object before the change, with the version of the change: what DELETED shows."""
        key = ("departed", storage.head)
        found = self._views.get(key)
        if found is None:
            found = with_revision(self.previous(storage) or b"", self.change.revision)
            self._views[key] = found
        return found

    def frame(self, key: object, encode: Callable[[], bytes]) -> bytes:
        """Return the encoded frame for a form of the event, encoding it the first time."""
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = encode()
        return found

    async def learn(self, storage: ObjectStorage, *, both: bool) -> None:
        """Let a webhook convert what a watch will show; once for all watches of the version.

        `both` tells that a selection looks at the object before the change, too.

        Raises:
            StorageReadError: the webhook does not convert it.
        """
        if self._learning is None:
            self._learning = {}
        # Who is cancelled while it asks leaves the next one to ask again.
        async with self._learning.setdefault(storage.head, asyncio.Lock()):
            wanted = [] if self.is_deletion else [self.change.version]
            if self.change.previous is not None and not self.is_creation:
                wanted += [self.change.previous] if both or self.is_deletion else []
            missing = [
                version
                for version in wanted
                if not storage.is_plain(version)
                and (version.revision, storage.head) not in self._views
            ]
            texts = await storage.texts([Item(self.change.key, v) for v in missing])
            for version, text in zip(missing, texts, strict=True):
                self._views[version.revision, storage.head] = text

    def _view(self, storage: ObjectStorage, version: Version) -> bytes:
        if storage.is_plain(version):
            return version.value or b""
        key = (version.revision, storage.head)
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = storage.convert(version)
        return found


class Watcher:
    """One watch: decides which events concern it and queues their frames.

    A reader that lets more than `limit` bytes pile up is dropped: its stream ends, and it lists
    afresh or resumes from the version that it saw last.
    """

    def __init__(
        self,
        storage: ObjectStorage,
        scope: str,
        selection: Selection,
        encode: Encode,
        form: object,
        *,
        limit: int = MOST_BYTES,
    ) -> None:
        self.storage = storage
        self.scope = scope
        self.selection = selection
        self._encode = encode
        self._form = (form, storage.head)
        self._limit = limit
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._ready = ReaderSignal()
        self._begun = False
        self.closed = False

    def offer(self, event: Event) -> None:
        """Queue an event's frame if the event concerns this watch."""
        if self.closed or not event.change.key.startswith(self.scope):
            return
        kind, shown = self._decide(event)
        if shown is not None:
            first = not self._begun
            key = (self._form, kind, first)
            self.push(event.frame(key, lambda: self._encode(kind, shown, first)))

    def push(self, frame: bytes) -> None:
        """Queue a frame."""
        self._begun = True
        self._queue.append(frame)
        self._size += len(frame)
        if self._size > self._limit:
            self.close()
        self._ready.set()

    def show_state(self, items: Sequence[Item]) -> None:
        """Queue an ADDED event for each item that is selected: what the watch begins with."""
        for item in items:
            raw = self.storage.convert(item.version)
            if not self.selection or self.selection.matches(self.storage, item.key, raw):
                self.show("ADDED", raw)

    def fail(self, error: APIError) -> None:
        """Queue an ERROR event and end the stream after it."""
        self.push(build_frame("ERROR", encode_json(error.to_status())))
        self.close()

    def show(self, kind: str, raw: bytes) -> None:
        """Queue an event that no one else sees; it counts for nothing against the limit."""
        self._queue.append(self._encode(kind, raw, not self._begun))
        self._begun = True
        self._ready.set()

    def close(self) -> None:
        """End the stream once what is queued has been read."""
        self.closed = True
        self._ready.set()

    def end(self) -> None:
        """Let nothing run for a watch that nobody reads any more."""
        self._ready.cancel()

    async def read(self, timeout: float) -> bytes:
        """Wait for frames and return all of them; empty after `timeout` seconds without any."""
        if not self._queue and not self.closed and not await self._ready.wait(timeout):
            return b""
        return self._take()

    def _take(self) -> bytes:
        frames = b"".join(self._queue)
        self._queue.clear()
        self._size = 0
        return frames

    def _decide(self, event: Event) -> tuple[str, bytes | None]:
        """Return the event's type for this watch and the object to show; None for no event."""
        storage, selection = self.storage, self.selection
        current = event.current(storage)
        if not selection:
            is_in, was_in = current is not None, not event.is_creation
        else:
            previous = event.previous(storage)
            is_in = current is not None and event.is_selected(selection, storage, current)
            was_in = previous is not None and event.is_selected(selection, storage, previous)
        if is_in:
            return ("MODIFIED" if was_in else "ADDED"), current
        if was_in:
            return "DELETED", event.departed(storage)
        return "", None


class WatchHub:
    """All running watches, by the prefix of the resource that they are about."""

    def __init__(self, store: VersionedStore) -> None:
        self._watchers: dict[str, list[Watcher]] = {}
        self._unsubscribe = store.subscribe(self._dispatch)
        self._store = store

    def add(self, watcher: Watcher) -> None:
        """Let a watcher see all changes from now on."""
        self._watchers.setdefault(watcher.storage.prefix, []).append(watcher)

    def replay(self, watcher: Watcher, revision: int) -> None:
        """Let a watcher see the changes after a revision, and all from now on.

        Raises:
            Compacted: some of them are no longer kept.
        """
        for change in self._store.changes_after(revision):
            if change.key.startswith(watcher.scope):
                watcher.offer(Event(change))
        self.add(watcher)

    def remove(self, watcher: Watcher) -> None:
        """Forget a watcher; one that is gone already is no error."""
        watchers = self._watchers.get(watcher.storage.prefix, [])
        watcher.end()
        if watcher in watchers:
            watchers.remove(watcher)

    def close_kind(self, kind: ServedKind) -> None:
        """End the watches of a kind that is no longer served, or no longer as it was."""
        for watchers in self._watchers.values():
            for watcher in watchers:
                if watcher.storage.kind is kind:
                    watcher.close()

    def close(self) -> None:
        """End all watches."""
        self._unsubscribe()
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.close()

    def __len__(self) -> int:
        return sum(len(watchers) for watchers in self._watchers.values())

    def _dispatch(self, change: Change) -> None:
        # Keys read /registry/GROUP/PLURAL/…: the prefix is what stands before the fourth slash.
        end = change.key.index("/", change.key.index("/", 10) + 1) + 1
        watchers = self._watchers.get(change.key[:end])
        if watchers:
            event = Event(change)
            for watcher in watchers:
                watcher.offer(event)


def build_frame(kind: str, raw: bytes) -> bytes:
    """Build one line of a watch's stream."""
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"


def build_bookmark(kind: ServedKind, revision: int, *, initial_end: bool = False) -> Object:
    """Build the object of a BOOKMARK event."""
    metadata: Object = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    resource = kind.resource
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
