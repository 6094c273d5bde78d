"""Monitors: the metadata of every object of every kind, followed as kinds come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random

from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import GroupKind, Resource
from kubewright.cache.entry import Change
from kubewright.cache.reflector import Reflector
from kubewright.cache.store import ALL_NAMESPACES, Store
from kubewright.client.accepting import build_metadata_client
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.client.objects import RawObject
from kubewright.local.controllers.discovery import Discovery

# Nothing is owned by an Event, and nothing owns one: following them all would be for nothing.
_IGNORED = frozenset({GroupKind("", "Event"), GroupKind("events.k8s.io", "Event")})

_PATIENCE = timedelta(seconds=30)


class MetadataStore(Store):
    """A store that keeps of each object only what ownership needs."""

    def replace(
        self,
        items: Iterable[RawObject],
        resource_version: str,
        *,
        scope: str = ALL_NAMESPACES,
        trust_versions: bool = True,
    ) -> None:
        """Make a list the content of the store."""
        reduced = [_reduce(item) for item in items]
        super().replace(reduced, resource_version, scope=scope, trust_versions=trust_versions)

    def put(self, obj: RawObject, *, scope: str = ALL_NAMESPACES) -> None:
        """Take the state that an event brings."""
        super().put(_reduce(obj), scope=scope)


def _reduce(obj: RawObject) -> RawObject:
    meta = obj.meta
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        owner_references=meta.owner_references,
        finalizers=meta.finalizers,
    )
    return RawObject(kept, b"{}", obj.error)


class Monitors:
    """One reflector of metadata for each resource that can be listed, watched and deleted."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        on_change: Callable[[Resource, Change], None],
    ) -> None:
        self._client = build_metadata_client(client)
        self._clock = clock
        self._random = random
        self._on_change = on_change
        self._stores: dict[Resource, MetadataStore] = {}
        self._started: dict[Resource, float] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._by_kind: dict[GroupKind, Resource] = {}

    @property
    def is_synced(self) -> bool:
        """Tell whether every kind that is monitored has been read whole."""
        return bool(self._stores) and all(store.synced for store in self._stores.values())

    @property
    def is_usable(self) -> bool:
        """Tell whether every kind has been read whole, or had its time: some cannot be read.

        A custom resource with a broken conversion webhook, say, must not end all collection.
        """
        latest = self._clock.monotonic() - _PATIENCE.total_seconds()
        return bool(self._stores) and all(
            store.synced or self._started[resource] < latest
            for resource, store in self._stores.items()
        )

    def resource_of(self, kind: GroupKind) -> Resource | None:
        """Return the resource that serves a kind now, in whichever version."""
        return self._by_kind.get(kind)

    def follow(self, discovery: Discovery, group: asyncio.TaskGroup) -> None:
        """Monitor what is served now; stop with what is not.

        Where part of the discovery is stale nothing is stopped: what does not answer may be back.
        """
        served = {
            resource
            for resource in discovery.supporting("list", "watch", "delete")
            if resource.gvk.group_kind not in _IGNORED
        }
        if not discovery.stale:
            for resource in self._stores.keys() - served:
                self._stop(resource)
        self._by_kind = {s.resource.gvk.group_kind: s.resource for s in discovery.resources}
        for resource in sorted(served - self._stores.keys(), key=str):
            self._start(resource, group)

    def _start(self, resource: Resource, group: asyncio.TaskGroup) -> None:
        store = MetadataStore(resource, clock=self._clock)
        store.subscribe(lambda change: self._on_change(resource, change))
        reflector = Reflector(self._client, store, clock=self._clock, random=self._random)
        self._stores[resource] = store
        self._started[resource] = self._clock.monotonic()
        self._tasks[resource] = group.create_task(reflector.run(), name=str(reflector))

    def _stop(self, resource: Resource) -> None:
        self._tasks.pop(resource).cancel()
        # An empty list tells the listeners that all of them are gone.
        self._stores.pop(resource).replace([], "")
