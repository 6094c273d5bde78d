"""Keeps a directory of Services as the API has them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from kubewright.api.resource import NamespacedName
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.cache.store import Store
from kubewright.local.network.service import EndpointSlice, Service
from kubewright.local.network.service_directory import ServiceDirectory

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class DirectoryFeed:
    """Brings what stores have into a directory, then calls `changed`."""

    def __init__(
        self,
        services: Store,
        slices: Store,
        directory: ServiceDirectory,
        changed: Callable[[], None],
    ) -> None:
        self._changed = changed
        self._follow(services, Service, directory.put_service)
        self._follow(slices, EndpointSlice, directory.put_slice)

    def _follow(
        self, store: Store, kind: type[T], put: Callable[[NamespacedName, T | None], None]
    ) -> None:
        def take(change: Change) -> None:
            gone = change.type is ChangeType.DELETED
            put(change.entry.key, None if gone else decode(change.entry, kind))
            self._changed()

        store.subscribe(take)
        for entry in store.list():
            put(entry.key, decode(entry, kind))


def decode(entry: Entry, kind: type[T]) -> T | None:
    """Decode an entry; one that cannot be read counts as not there."""
    try:
        return msgspec.json.decode(entry.raw, type=kind)
    except msgspec.MsgspecError as error:
        _logger.warning("%r is left out of the network: %s", entry, error)
        return None
