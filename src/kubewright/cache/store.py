"""The local view of one resource: kept by reflectors, read by everybody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TypeAlias, TypeVar

import msgspec

from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import NamespacedName, Resource
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.cache.index import Index, IndexValues, namespace_of, owner_uids
from kubewright.cache.resource_version import is_newer, is_seen, oldest
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.objects import RawObject

logger = logging.getLogger(__name__)

ALL_NAMESPACES = ""
_NAMESPACE = "kubewright/namespace"
_OWNER = "kubewright/owner"

T = TypeVar("T")
Listener: TypeAlias = Callable[[Change], None]
ServingListener: TypeAlias = Callable[[], None]
Entries: TypeAlias = list[Entry]
Changes: TypeAlias = list[Change]


_PART = 500
"""Objects that are taken in at once: some milliseconds of work."""


def _split(items: Iterable[T]) -> Iterator[Sequence[T]]:
    rest = iter(items)
    while part := tuple(islice(rest, _PART)):
        yield part


class _Waiter(msgspec.Struct, eq=False):
    key: NamespacedName
    resource_version: str
    seen: asyncio.Future[None]


class Store:
    """The objects of one resource that selectors choose, at a known resource version.

    Guarantees: a listener hears of each difference between two states of the store exactly once,
    after the store has the newer one. An event older than the store's version changes nothing. An
    object deleted and made again under its name is a DELETED and an ADDED.

    A store has one *scope* for each reflector that feeds it: a namespace, or all of them ("").
    `scopes` names them; the store is `synced` when each has been listed once. Use it from one event
    loop only; no method but the waiting ones suspends, so what is read between two awaits fits
    together.

    Attributes:
        optional: whether all who use the store can do without the kind: nobody waits for it then.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        scopes: Sequence[str] = (ALL_NAMESPACES,),
        clock: Clock | None = None,
    ) -> None:
        self.resource = resource
        self._clock = clock or SystemClock()
        self._versions = dict.fromkeys(scopes, "")
        self._entries: dict[NamespacedName, Entry] = {}
        self._indexes = {_OWNER: Index(_OWNER, owner_uids)}
        self._listeners: list[Listener] = []
        self._serving_listeners: list[ServingListener] = []
        self._waiters: list[_Waiter] = []
        self._listed: set[str] = set()
        self._unserved: set[str] = set()
        self._synced = asyncio.Event()
        self._known = asyncio.Event()
        self.optional = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def synced(self) -> bool:
        """Tell whether the store has held the server's whole state once."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version up to which all of the store is known; empty before it is synced."""
        return oldest(list(self._versions.values()))

    @property
    def is_served(self) -> bool:
        """Tell whether the API server serves the kind, as far as it was asked.

        False as soon as a list or a watch is answered with 404, as before the definition of the
        kind is installed; true again when its objects have been listed. What was known stays.
        """
        return not self._unserved

    async def wait_synced(self) -> None:
        """Wait until the store has held the server's whole state once."""
        await self._synced.wait()

    async def wait_known(self) -> None:
        """Wait until the store is synced, or the API server said that it does not serve the kind.

        Of an `optional` store the latter is enough.
        """
        await (self._known if self.optional else self._synced).wait()

    def get(self, key: NamespacedName) -> Entry | None:
        """Return the entry of a key, if there is one; it is never changed, only replaced."""
        return self._entries.get(key)

    def list(
        self, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Entries:
        """Return the entries of a namespace, or of all, that have all of the labels; unordered."""
        if namespace:
            if _NAMESPACE not in self._indexes:
                # Most operators never ask for a whole namespace: it costs nothing until one does.
                self.add_index(_NAMESPACE, namespace_of)
            entries = self._indexes[_NAMESPACE].find(namespace)
        else:
            entries = [*self._entries.values()]
        if not labels:
            return entries
        wanted = labels.items()
        return [entry for entry in entries if wanted <= (entry.meta.labels or {}).items()]

    def add_index(self, name: str, values: IndexValues) -> None:
        """Keep the entries by the values that a pure function gives them, from now on.

        Raises:
            ValueError: the store has another index of this name.
        """
        if name in self._indexes:
            raise ValueError(f"the store of {self.resource} has an index {name!r} already")
        index = self._indexes[name] = Index(name, values)
        for entry in self._entries.values():
            index.put(entry)

    def by_index(self, name: str, value: str) -> Entries:
        """Return the entries to which an index gives a value.

        Raises:
            KeyError: there is no such index.
        """
        return self._indexes[name].find(value)

    def owned_by(self, uid: str) -> Entries:
        """Return the entries that name an owner of this uid, as controller or not, in no order."""
        return self._indexes[_OWNER].find(uid)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change from now on; return what ends that.

        What the store has already is not told again: subscribe first, then read it. A listener must
        not wait; what it raises is logged and does not keep others from hearing.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def subscribe_serving(self, listener: ServingListener) -> None:
        """Call `listener` each time that `is_served` has changed; it must not wait or raise."""
        self._serving_listeners.append(listener)

    def note_unserved(self, *, scope: str = ALL_NAMESPACES) -> None:
        """Take the answer that there is no such kind; its objects stay as they were last seen."""
        self._note_serving(self._unserved | {scope})
        self._known.set()

    def _note_serving(self, unserved: set[str]) -> None:
        before, self._unserved = self._unserved, unserved
        if bool(before) is not bool(unserved):
            for listener in self._serving_listeners:
                listener()

    async def wait_for(
        self, key: NamespacedName, resource_version: str, timeout: timedelta
    ) -> bool:
        """Wait until the store has seen a write, so that the next read does not miss it.

        Returns False when `timeout` passed before. A deletion counts as seen too.
        """
        if self._has_seen(key, resource_version):
            return True
        waiter = _Waiter(key, resource_version, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        alarm = asyncio.ensure_future(self._clock.sleep(timeout.total_seconds()))
        try:
            await asyncio.wait((waiter.seen, alarm), return_when=asyncio.FIRST_COMPLETED)
            return waiter.seen.done()
        finally:
            self._waiters.remove(waiter)
            alarm.cancel()
            await asyncio.wait((alarm,))

    def replace(
        self,
        items: Iterable[RawObject],
        resource_version: str,
        *,
        scope: str = ALL_NAMESPACES,
        trust_versions: bool = True,
    ) -> None:
        """Make the server's list the content of a scope at once.

        `items`, `resource_version`, `scope` and `trust_versions` are those of `replacing`.
        """
        for _ in self.replacing(
            items, resource_version, scope=scope, trust_versions=trust_versions
        ):
            pass

    def replacing(
        self,
        items: Iterable[RawObject],
        resource_version: str,
        *,
        scope: str = ALL_NAMESPACES,
        trust_versions: bool = True,
    ) -> Iterator[None]:
        """Make the server's list, `items`, the content of a scope; what is not in it was deleted.

        Each step does a part of the work, so that a caller can let others run in between. They see
        the changes one after the other, as if events had brought them; the store is at the list's
        version, and synced, after the last one.

        The list wins also over newer entries: a server restored from a backup goes back in time.
        Without `trust_versions`, an entry of the same version is replaced too: that server gives
        the versions of its lost future out again.
        """
        fresh: dict[NamespacedName, Entry] = {}
        for part in _split(items):
            fresh.update((entry.key, entry) for entry in (Entry(self.resource, x) for x in part))
            yield
        gone = [entry for entry in self.list(namespace=scope) if entry.key not in fresh]
        for lost in _split(gone):
            self._tell([self._remove(entry) for entry in lost])
            yield
        for entries in _split(fresh.values()):
            changes: Changes = []
            for entry in entries:
                changes += self._put(entry, trust_version=trust_versions)
            self._tell(changes)
            yield
        self._versions[scope] = resource_version
        self._tell(())
        # Listeners take what they hear of a store that is not synced yet for its first state.
        self._listed.add(scope)
        if self._listed >= self._versions.keys():
            self._synced.set()
            self._known.set()
        self._note_serving(self._unserved - {scope})

    def put(self, obj: RawObject, *, scope: str = ALL_NAMESPACES) -> None:
        """Take the state that an ADDED or MODIFIED event brings, unless it is old news."""
        if is_seen(self._versions[scope], obj.meta.resource_version):
            return
        changes = self._put(Entry(self.resource, obj))
        self._versions[scope] = obj.meta.resource_version or self._versions[scope]
        self._tell(changes)

    def remove(self, obj: RawObject, *, scope: str = ALL_NAMESPACES) -> None:
        """Forget the object of a DELETED event, unless it is old news."""
        last = Entry(self.resource, obj)
        version = last.meta.resource_version
        known = self._entries.get(last.key)
        # Not the scope's version decides: some servers send a deleted object with the version of
        # its last state.
        is_old_news = known is None or is_newer(known.meta.resource_version, version)
        changes = [] if is_old_news else [self._remove(last)]
        if not is_seen(self._versions[scope], version):
            self._versions[scope] = version
        self._tell(changes)

    def observe(self, resource_version: str, *, scope: str = ALL_NAMESPACES) -> None:
        """Take a bookmark: nothing else changed up to this version."""
        if not is_seen(self._versions[scope], resource_version):
            self._versions[scope] = resource_version
            self._tell(())

    def _put(self, entry: Entry, *, trust_version: bool = True) -> Changes:
        old = self._entries.get(entry.key)
        if old is not None and trust_version and is_same_state(old.meta, entry.meta):
            return []
        changes: Changes = []
        if old is not None and old.meta.uid != entry.meta.uid:
            changes.append(self._remove(old))
            old = None
        self._entries[entry.key] = entry
        for index in self._indexes.values():
            index.put(entry)
        type = ChangeType.ADDED if old is None else ChangeType.MODIFIED
        changes.append(Change(type, entry, old))
        return changes

    def _remove(self, last: Entry) -> Change:
        old = self._entries.pop(last.key)
        for index in self._indexes.values():
            index.remove(last.key)
        return Change(ChangeType.DELETED, last, old)

    def _tell(self, changes: Iterable[Change]) -> None:
        for waiter in [*self._waiters]:
            if self._has_seen(waiter.key, waiter.resource_version) and not waiter.seen.done():
                waiter.seen.set_result(None)
        for change in changes:
            for listener in [*self._listeners]:
                try:
                    listener(change)
                # A plain function that raises CancelledError was not cancelled: it failed.
                except (Exception, asyncio.CancelledError):
                    logger.exception("a listener failed on %r", change.entry)

    def _has_seen(self, key: NamespacedName, resource_version: str) -> bool:
        entry = self._entries.get(key)
        if entry is not None and is_seen(entry.meta.resource_version, resource_version):
            return True
        scope = key.namespace if key.namespace in self._versions else ALL_NAMESPACES
        return is_seen(self._versions.get(scope, ""), resource_version)


def is_same_state(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Tell whether two metadata are of the same write of the same object."""
    version = one.resource_version
    return bool(version) and version == other.resource_version and one.uid == other.uid
