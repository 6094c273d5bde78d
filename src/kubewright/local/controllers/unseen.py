"""What a controller created and its view does not show yet.

Between two looks the runtime waits until the view shows what was written, but not for ever. When a
watch lags for longer, the objects that were made still count: otherwise they would be made again.
"""

from __future__ import annotations

from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.resource_version import is_seen, parse_version
from kubewright.cache.store import Store


class UnseenObjects:
    """The objects of one owner that were created lately; lost without harm with the process."""

    def __init__(self) -> None:
        self._made: dict[NamespacedName, Object] = {}

    def add(self, obj: Object) -> None:
        """Remember an object as the server answered its creation."""
        # Where versions have no order, nobody could tell when the view has seen the object.
        if parse_version(obj["metadata"].get("resourceVersion") or "") is not None:
            self._made[NamespacedName.of(obj)] = obj

    def missing_in(self, store: Store) -> list[Object]:
        """Return those that a store does not know of; what it has seen, even go, is forgotten."""
        for key, obj in list(self._made.items()):
            entry = store.get(key)
            version = obj["metadata"]["resourceVersion"]
            is_there = entry is not None and entry.meta.uid == obj["metadata"]["uid"]
            if is_there or is_seen(store.resource_version, version):
                del self._made[key]
        return list(self._made.values())
