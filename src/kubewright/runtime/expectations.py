"""Read your own writes: what a key's reconcile wrote, until the stores have seen it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from kubewright.api.resource import GroupVersionKind, NamespacedName, Object
from kubewright.cache.entry import Change, Entry
from kubewright.cache.store import Store
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.runtime.alarm import Alarm

SETTLE_TIMEOUT = timedelta(seconds=5)

_logger = logging.getLogger(__name__)


class Written(msgspec.Struct, frozen=True):
    """A write that a store will see: at this version or later, or as the end of this UID."""

    store: Store
    key: NamespacedName
    resource_version: str = ""
    uid: str = ""


class Expectations:
    """Remember the writes of each request until the stores show them.

    A second reconcile that starts before the watch has brought the first one's writes would act on
    the past: create a second pod, delete one pod too many. Only writes to watched kinds count, and
    what is remembered is lost without harm: a new process lists afresh.
    """

    def __init__(
        self, client: Client, clock: Clock, stores: Mapping[GroupVersionKind, Store]
    ) -> None:
        self._client = client
        self._clock = clock
        self._stores = stores
        self._written: dict[NamespacedName, dict[tuple[Store, NamespacedName], Written]] = {}
        self._doubts: dict[NamespacedName, set[tuple[GroupVersionKind, str]]] = {}

    def wrote(self, request: NamespacedName, obj: Object) -> None:
        """Expect a store to see an object as the server answered it."""
        store = self._stores.get(GroupVersionKind.of(obj))
        version = (obj.get("metadata") or {}).get("resourceVersion")
        if store is not None and version:
            self._expect(request, Written(store, NamespacedName.of(obj), version))

    def deleted(self, request: NamespacedName, entry: Entry) -> None:
        """Expect the store that has an entry to see its object gone, or its end under way."""
        store = self._stores.get(entry.resource.gvk)
        if store is not None:
            self._expect(request, Written(store, entry.key, uid=entry.meta.uid))

    def doubts(self, request: NamespacedName, obj: Object) -> None:
        """Note a write of which nobody knows whether it happened."""
        gvk = GroupVersionKind.of(obj)
        if gvk in self._stores:
            namespace = NamespacedName.of(obj).namespace
            self._doubts.setdefault(request, set()).add((gvk, namespace))

    async def settle(self, request: NamespacedName, timeout: timedelta = SETTLE_TIMEOUT) -> bool:
        """Wait until the stores have seen what a request wrote; tell whether they have.

        After a doubtful write, the API server is asked once what it holds.

        Raises:
            KubewrightError: it cannot be asked; the doubt stays.
        """
        for gvk, namespace in sorted(self._doubts.get(request, ()), key=str):
            await self._resolve(request, gvk, namespace)
        self._doubts.pop(request, None)
        deadline = self._clock.monotonic() + timeout.total_seconds()
        settled = True
        for written in self._written.pop(request, {}).values():
            remaining = max(deadline - self._clock.monotonic(), 0.0)
            if not await self._seen(written, timedelta(seconds=remaining)):
                settled = False
                _logger.warning(
                    "the store of %s has not seen the write to %s in %s",
                    written.store.resource,
                    written.key,
                    timeout,
                )
        return settled

    def has_written(self, request: NamespacedName) -> bool:
        """Tell whether a request wrote anything since it was settled."""
        return request in self._written or request in self._doubts

    def forget(self, request: NamespacedName) -> None:
        """Forget what a request wrote."""
        self._written.pop(request, None)
        self._doubts.pop(request, None)

    def _expect(self, request: NamespacedName, written: Written) -> None:
        self._written.setdefault(request, {})[written.store, written.key] = written

    async def _resolve(
        self, request: NamespacedName, gvk: GroupVersionKind, namespace: str
    ) -> None:
        store = self._stores[gvk]
        pages = self._client.list_pages(store.resource, namespace=namespace or None)
        async for page in pages:
            for item in page.items:
                entry = store.get(item.meta.key)
                if entry is None or entry.meta.resource_version != item.meta.resource_version:
                    version = item.meta.resource_version
                    self._expect(request, Written(store, item.meta.key, version))

    async def _seen(self, written: Written, timeout: timedelta) -> bool:
        if written.resource_version:
            return await written.store.wait_for(written.key, written.resource_version, timeout)
        return await wait_for_deletion(written, self._clock, timeout)


async def wait_for_deletion(written: Written, clock: Clock, timeout: timedelta) -> bool:
    """Wait until a store shows an object gone, replaced, or being deleted."""
    alarm = Alarm(clock)

    def wake(change: Change) -> None:
        if change.entry.key == written.key:
            alarm.set()

    deadline = clock.monotonic() + timeout.total_seconds()
    unsubscribe = written.store.subscribe(wake)
    try:
        while not _is_gone(written):
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                return False
            await alarm.wait(remaining)
        return True
    finally:
        unsubscribe()


def _is_gone(written: Written) -> bool:
    entry = written.store.get(written.key)
    return entry is None or entry.meta.uid != written.uid or entry.meta.is_deleting
