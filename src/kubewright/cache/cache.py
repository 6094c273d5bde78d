"""The cache: one store for each resource and selection, shared by all who ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from kubewright.api.resource import Resource
from kubewright.cache.reflector import Reflector, Transform
from kubewright.cache.store import ALL_NAMESPACES, Store
from kubewright.client.accepting import build_metadata_client
from kubewright.client.client import Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.requests import Selector, build_selector


class _Selection(NamedTuple):
    resource: Resource
    namespace: str
    labels: str
    fields: str
    metadata_only: bool
    transform: Transform | None


class Cache:
    """Keep stores of an API server's objects.

    With `namespaces`, a store of a namespaced resource that is asked for without a namespace holds
    those namespaces only, each fed by its own reflector: what a namespaced Role allows. With
    `watch_list`, the first state comes as a stream where the server can (KEP-3157); without it, and
    else, as a list in pages.

    Flow: register stores with `store`, then `run`. A store registered later starts at once.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        namespaces: Sequence[str] | None = None,
        watch_list: bool = True,
    ) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._random = random or Random()
        self._namespaces = tuple(dict.fromkeys(namespaces or ()))
        self._watch_list = watch_list
        self._stores: dict[_Selection, Store] = {}
        self._reflectors: list[Reflector] = []
        self._group: asyncio.TaskGroup | None = None

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """The reflectors that feed the stores; each tells its `failure` and `last_contact`."""
        return tuple(self._reflectors)

    def store(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Selector | None = None,
        fields: Selector | None = None,
        metadata_only: bool = False,
        transform: Transform | None = None,
        optional: bool = False,
    ) -> Store:
        """Return the store of a resource and selection; the same one for the same selection.

        Arguments:
            resource: what to hold.
            namespace: the only one to look into; by default those of the cache.
            labels: a selector that the API server applies.
            fields: another one, of the fields that the kind can be selected by.
            metadata_only: ask for `PartialObjectMetadata`: no spec, no data, no status.
            transform: a pure function of an object as a dict that returns what is kept of it. It is
                called once for each state; `Entry.meta` stays as the server sent it. Where it
                raises, the object is kept whole, with the `error`.
            optional: the API server need not serve the kind; see `Store.is_served`. It counts when
                all who ask for the same selection say so.
        """
        selection = _Selection(
            resource,
            namespace or "",
            build_selector(labels),
            build_selector(fields),
            metadata_only,
            transform,
        )
        if selection not in self._stores:
            self._stores[selection] = self._register(selection)
            self._stores[selection].optional = optional
        self._stores[selection].optional &= optional
        return self._stores[selection]

    async def run(self) -> None:
        """Run the reflectors; return only by cancellation.

        Raises:
            RuntimeError: the cache runs already.
        """
        if self._group is not None:
            raise RuntimeError("the cache runs already")
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for reflector in self._reflectors:
                    self._start(reflector)
                # Without a reflector the group would end at once.
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None

    async def wait_synced(self) -> None:
        """Wait until every store registered so far has held the server's whole state once.

        An optional one of a kind that the server does not serve is not waited for.
        """
        for store in [*self._stores.values()]:
            await store.wait_known()

    def _register(self, selection: _Selection) -> Store:
        resource = selection.resource
        scopes: Sequence[str] = (selection.namespace if resource.namespaced else ALL_NAMESPACES,)
        if resource.namespaced and not selection.namespace and self._namespaces:
            scopes = self._namespaces
        store = Store(resource, scopes=scopes, clock=self._clock)
        for scope in scopes:
            reflector = Reflector(
                build_metadata_client(self._client) if selection.metadata_only else self._client,
                store,
                namespace=scope,
                labels=selection.labels,
                fields=selection.fields,
                clock=self._clock,
                random=self._random,
                watch_list=self._watch_list,
                transform=selection.transform,
            )
            self._reflectors.append(reflector)
            self._start(reflector)
        return store

    def _start(self, reflector: Reflector) -> None:
        if self._group is not None:
            self._group.create_task(reflector.run(), name=str(reflector))
