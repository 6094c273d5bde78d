"""Which workloads a change of an object without controller concerns."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.resource import NamespacedName, Resource
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.local.controllers.label_selector import LabelSelector


class Claimants:
    """The workloads of a kind that may adopt an object: those of its namespace that select it."""

    def __init__(self, kind: Resource) -> None:
        self._kind = kind
        self._store: Store | None = None

    def set_up(self, cache: Cache) -> None:
        """Take the store of the kind; to be called before changes arrive."""
        self._store = cache.store(self._kind)

    def of_orphan(self, entry: Entry) -> Iterable[NamespacedName]:
        """Return the workloads to wake for an object; none when it has a controller."""
        if self._store is None or entry.meta.controller is not None or not entry.meta.labels:
            return []
        labels = entry.meta.labels
        return [
            workload.key
            for workload in self._store.list(namespace=entry.meta.namespace)
            if LabelSelector.of(workload.object()["spec"].get("selector")).matches(labels)
        ]
