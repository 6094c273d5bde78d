"""What the verbs work on: the store, the kinds, the watches, the time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

from kubewright.local.apiserver.converted_storage import ConvertedStorage
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.storage import ObjectStorage
from kubewright.local.apiserver.watching import WatchHub
from kubewright.local.store import VersionedStore

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_PREFIX = 58


class Backend:
    """The parts of a server that every verb shares. Time and randomness come from outside."""

    def __init__(
        self,
        store: VersionedStore,
        registry: Registry,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.store = store
        self.registry = registry
        self.hub = WatchHub(store)
        registry.on_withdrawn(self.hub.close_kind)
        self.now = now
        self.monotonic = monotonic
        self.random = rng or random.Random()
        self._storages: dict[int, ObjectStorage] = {}
        self._since: dict[int, tuple[ServedKind, int]] = {}
        self._generation = registry.generation

    def storage(self, kind: ServedKind) -> ObjectStorage:
        """Return the storage of a kind."""
        if self._generation != self.registry.generation:
            self._storages.clear()
            self._generation = self.registry.generation
        found = self._storages.get(id(kind))
        if found is None or found.kind is not kind:
            found = self._storages[id(kind)] = self._build_storage(kind)
        return found

    def _build_storage(self, kind: ServedKind) -> ObjectStorage:
        since = self._served_since(kind)
        if kind.webhook is not None:
            return ConvertedStorage(self.store, kind, kind.webhook, since)
        return ObjectStorage(self.store, kind, self.registry.storage_kind(kind), since)

    def _served_since(self, kind: ServedKind) -> int:
        """Return the revision at which a kind was first asked for, which no schema change spans."""
        known = self._since.get(id(kind))
        if known is None or known[0] is not kind:
            served = {id(k) for k in self.registry.kinds()}
            self._since = {key: value for key, value in self._since.items() if key in served}
            known = self._since[id(kind)] = (kind, self.store.revision)
        return known[1]

    def storage_of(self, group: str, version: str, plural: str) -> ObjectStorage:
        """Return the storage of a kind that the server itself reads.

        Raises:
            LookupError: the kind is not served.
        """
        kind = self.registry.find(group, version, plural)
        if kind is None:
            raise LookupError(f"{plural}.{version}.{group} is not served")
        return self.storage(kind)

    def new_uid(self) -> str:
        """Return a fresh UID (RFC 9562 version 4)."""
        # The module uuid costs a start more than all UIDs of a day: it loads platform.
        bits = self.random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def generate_name(self, prefix: str) -> str:
        """Return a name for `generateName`: the prefix, cut to fit, and five random letters."""
        suffix = "".join(self.random.choices(_NAME_LETTERS, k=5))
        return prefix[:_MAX_GENERATED_PREFIX] + suffix
