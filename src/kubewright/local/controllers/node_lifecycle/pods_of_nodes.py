"""Which pods are on a node."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.local.controllers.pod_views import PodViews


class PodsOfNodes:
    """Finds the pods on a node by an index of the store; each controller has its own."""

    def __init__(self, index: str, views: PodViews) -> None:
        self.views = views
        self._index = index

    def set_up(self, cache: Cache) -> None:
        """Add the index; before anything is listed."""
        self.views.set_up(cache)
        self._store = cache.store(builtin.POD)
        self._store.add_index(self._index, self._node_name)

    def _node_name(self, entry: Entry) -> Iterable[str]:
        name = self.views.of(entry)["spec"].get("nodeName")
        return (name,) if name else ()

    def on(self, node: str) -> list[Entry]:
        """Return the pods on a node of a name, whether there is such a node or not."""
        return list(self._store.by_index(self._index, node))

    def keys_on(self, node: Entry) -> Iterable[NamespacedName]:
        """Return the keys of the pods on a node."""
        return [entry.key for entry in self.on(node.meta.name)]
