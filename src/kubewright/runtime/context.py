"""What a reconcile may use: the client, the stores, events, time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from random import Random
from typing import Protocol

import msgspec

from kubewright.api.errors import ConfigurationError, InternalError, Timeout, TransportError
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.client.requests import Patch, PatchType, Propagation
from kubewright.runtime.attempt import Attempt
from kubewright.runtime.events import EventBroadcaster, EventRecorder
from kubewright.runtime.expectations import Expectations
from kubewright.runtime.observer import NoObserver, Observer

_DOUBTFUL = (TransportError, InternalError, Timeout)
"""Errors after which nobody knows whether a write happened."""


class Stores(Protocol):
    """Where objects are read from: a `Context`, or whatever else has stores."""

    def store(self, resource: Resource) -> Store:
        """Return the store of a resource."""
        ...


class Environment(msgspec.Struct, frozen=True):
    """What a manager lends to everything it runs."""

    client: Client
    cache: Cache
    clock: Clock
    random: Random
    broadcaster: EventBroadcaster
    observer: Observer = msgspec.field(default_factory=NoObserver)


class Context(msgspec.Struct, frozen=True):
    """What one reconcile works with.

    Reads come from the stores, which the controller named as its kind, `owns`, `watches` or
    `reads`: no request is sent. Writes go to the API server and are remembered: the next reconcile
    of the same key begins when the stores have seen them (5 s at most), so that it cannot act on a
    state from before. Write through these methods rather than through `client`.

    Every write raises what the client raises. Let it through: the controller knows what each error
    means, and looks at the object again. What is read is a fresh copy: change it as you like.

    `recorder` records Events, `clock` and `random` are those of the manager: a function that takes
    time and chance from them can be tested. `cache` and `stores` are what `get` and `list` read,
    and `expectations` what the writes are remembered in.
    """

    client: Client
    cache: Cache
    request: NamespacedName
    """The key of the object to reconcile."""
    logger: logging.LoggerAdapter[logging.Logger]
    """Tells the controller and the key with every line."""
    recorder: EventRecorder
    clock: Clock
    random: Random
    stores: Mapping[Resource, Store]
    expectations: Expectations
    field_manager: str | None = None
    """The field manager of `apply`; by default the client's."""
    attempt: Attempt | None = None
    """What is noted of this reconcile; its `id` is the reconcileID of logs and traces."""

    def __repr__(self) -> str:
        return f"<Context of {self.request}>"

    def store(self, resource: Resource) -> Store:
        """Return the store of a resource that the controller named.

        Raises:
            ConfigurationError: the controller does not watch it, so no store can tell about it.
        """
        store = self.stores.get(resource)
        if store is None:
            raise ConfigurationError(
                f"this controller has no store of {resource}: name it in owns=, watches= or reads="
            )
        return store

    def get(self, resource: Resource, key: NamespacedName | None = None) -> Object | None:
        """Read an object from its store: a fresh copy, or None when it does not exist.

        Without a key, the key of the request is meant.

        Raises:
            ConfigurationError: the controller does not watch the kind.
        """
        entry = self.store(resource).get(key or self.request)
        return None if entry is None else entry.object()

    async def create(self, obj: Object) -> Object:
        """Create an object and return it as the server stored it.

        Raises:
            AlreadyExists: an object of its name is there.
            Invalid: it breaks a rule of its kind.
        """
        return await self._write(obj, self.client.create(obj))

    async def replace(self, obj: Object, *, subresource: str | None = None) -> Object:
        """Replace an object whole (PUT), as long as it is at the resourceVersion of `obj`.

        Raises:
            Conflict: it is at another one: somebody changed it.
            NotFound: it is gone.
        """
        return await self._write(obj, self.client.replace(obj, subresource=subresource))

    async def apply(
        self,
        obj: Object,
        *,
        force: bool = True,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Apply an object server-side, by default with the context's field manager.

        The fields of `obj` become the manager's; those that it applied before and leaves out go.
        With `force`, fields of others are taken over.

        Raises:
            Conflict: without `force`, another manager owns a field and wants another value.
            Invalid: the object that results breaks a rule of its kind.
        """
        request = self.client.apply(
            obj,
            force=force,
            subresource=subresource,
            field_manager=field_manager or self.field_manager,
        )
        return await self._write(obj, request)

    async def patch(
        self,
        resource: Resource,
        key: NamespacedName,
        patch: Patch,
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str | None = None,
    ) -> Object:
        """Patch an object and return it as the server stored it.

        `type` says how `patch` is read; by default it is a merge patch, a dict.

        Raises:
            NotFound: it does not exist.
            Conflict: the patch has a resourceVersion that the object has no more.
        """
        target: Object = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": key.name, "namespace": key.namespace},
        }
        request = self.client.patch(
            resource,
            key.name,
            patch,
            type=type,
            namespace=key.namespace or None,
            subresource=subresource,
        )
        return await self._write(target, request)

    async def delete(
        self,
        resource: Resource,
        key: NamespacedName,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete an object, and its dependents after it; with a UID, only that very object.

        With a resource version, only while it is unchanged. `grace_period_seconds` is how long a
        pod may take to end; by default as it says itself. With the `propagation` Orphan its
        dependents stay, and with Foreground they go before it.

        Raises:
            NotFound: it does not exist.
            Conflict: another object of that name is there.
        """
        store = self.stores.get(resource)
        entry = store.get(key) if store is not None else None
        try:
            await self.client.delete(
                resource,
                key.name,
                namespace=key.namespace or None,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
                propagation=propagation,
            )
        except _DOUBTFUL:
            # It may have happened. When it did not, the next reconcile waits a little in vain.
            self._expect_end(entry, uid)
            raise
        self._expect_end(entry, uid)

    def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        owner: str | None = None,
    ) -> list[Object]:
        """Read objects from their store, as fresh copies; `owner` is the UID of an owner.

        Raises:
            ConfigurationError: the controller does not watch the kind.
        """
        store = self.store(resource)
        if owner is None:
            return [entry.object() for entry in store.list(namespace=namespace, labels=labels)]
        wanted = (labels or {}).items()
        return [
            entry.object()
            for entry in store.owned_by(owner)
            if namespace in (None, entry.meta.namespace)
            and wanted <= (entry.meta.labels or {}).items()
        ]

    async def _write(self, obj: Object, request: Awaitable[Object]) -> Object:
        try:
            result = await request
        except _DOUBTFUL:
            # The write may have happened: the next reconcile must find out before it writes again.
            self.expectations.doubts(self.request, obj)
            raise
        self.expectations.wrote(self.request, result)
        return result

    def _expect_end(self, entry: Entry | None, uid: str | None) -> None:
        if entry is not None and uid in (None, entry.meta.uid):
            self.expectations.deleted(self.request, entry)
