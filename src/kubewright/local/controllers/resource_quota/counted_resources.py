"""Which resources a quota counts, and the stores that hold their objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from kubewright.api import builtin
from kubewright.api.errors import TransportError
from kubewright.api.resource import Resource
from kubewright.cache.entry import Change
from kubewright.cache.store import Store
from kubewright.local.controllers.discovery import Discovery, discover
from kubewright.local.quota.usage import names_counted
from kubewright.runtime.context import Context

WHOLE = (builtin.POD, builtin.SERVICE, builtin.PERSISTENT_VOLUME_CLAIM)
"""The resources that count by what is in them; of all others metadata is enough."""

REDISCOVERY_SECONDS = 30.0

_LEGACY = (
    builtin.CONFIG_MAP,
    builtin.SECRET,
    Resource("", "v1", "ReplicationController", "replicationcontrollers"),
    Resource("", "v1", "ResourceQuota", "resourcequotas"),
)
_NEEDED_VERBS = ("create", "list", "watch", "delete")
_PATIENCE_SECONDS = 5.0


class CountedResources:
    """Finds what quotas count; a kind is watched from the first quota on that counts it."""

    def __init__(self, on_change: Callable[[Resource, Change], None]) -> None:
        self._on_change = on_change
        self._stores: dict[Resource, Store] = {}
        self._discovery = Discovery()
        self._discovered_at: float | None = None

    async def find(self, ctx: Context, hard: Collection[str]) -> list[Resource]:
        """Return the resources that count under some names, as far as they are served.

        Raises:
            TransportError: the server did not say what it serves.
        """
        found = [r for r in (*WHOLE, *_LEGACY) if names_counted(r, hard)]
        missing = find_uncounted(hard, found)
        if missing:
            served = (await self._discover(ctx, missing)).supporting(*_NEEDED_VERBS)
            found += [r for r in served if names_counted(r, missing)]
        return found

    async def open(self, ctx: Context, resource: Resource) -> Store:
        """Return the store of a resource, when it holds all objects.

        Raises:
            TransportError: it does not within 5 s; a kind can be unreadable for long.
        """
        if resource in WHOLE:
            return ctx.store(resource)
        store = self._stores.get(resource)
        if store is None:
            store = ctx.cache.store(resource, metadata_only=True)
            self._stores[resource] = store
            store.subscribe(lambda change: self._on_change(resource, change))
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await store.wait_synced()
        except TimeoutError:
            raise TransportError(f"{resource} could not be listed so far") from None
        return store

    async def _discover(self, ctx: Context, missing: Collection[str]) -> Discovery:
        """Return what is served; it is asked again where names are unknown, now and then."""
        now = ctx.clock.monotonic()
        is_old = self._discovered_at is None or now - self._discovered_at > REDISCOVERY_SECONDS
        served = self._discovery.supporting(*_NEEDED_VERBS)
        if is_old and find_uncounted(missing, served):
            self._discovery = await discover(ctx.client)
            self._discovered_at = now
        return self._discovery


def find_uncounted(hard: Collection[str], found: Iterable[Resource]) -> list[str]:
    """Return the names of `count/` quotas that none of the resources counts under."""
    counted = {name for resource in found for name in names_counted(resource, hard)}
    return [name for name in hard if name.startswith("count/") and name not in counted]
