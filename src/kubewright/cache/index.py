"""Indexes of a store: from a value to the entries that have it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from kubewright.api.resource import NamespacedName
from kubewright.cache.entry import Entry

logger = logging.getLogger(__name__)

IndexValues: TypeAlias = Callable[[Entry], Iterable[str]]
"""The values under which an entry is found; pure, and called once for each state of an object."""


class Index:
    """Entries by the values that a function gives them.

    An entry whose function fails is logged and found under no value: one odd object must not stop
    the store from following the others.
    """

    def __init__(self, name: str, values: IndexValues) -> None:
        self.name = name
        self._values = values
        self._entries: dict[str, dict[NamespacedName, Entry]] = {}
        self._values_of: dict[NamespacedName, frozenset[str]] = {}

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with its key."""
        values = self._evaluate(entry)
        for value in self._values_of.get(entry.key, frozenset()) - values:
            self._drop(entry.key, value)
        for value in values:
            self._entries.setdefault(value, {})[entry.key] = entry
        if values:
            self._values_of[entry.key] = values
        else:
            self._values_of.pop(entry.key, None)

    def remove(self, key: NamespacedName) -> None:
        """Forget an entry."""
        for value in self._values_of.pop(key, frozenset()):
            self._drop(key, value)

    def find(self, value: str) -> list[Entry]:
        """Return the entries that have a value."""
        return list(self._entries.get(value, {}).values())

    def _drop(self, key: NamespacedName, value: str) -> None:
        entries = self._entries[value]
        del entries[key]
        if not entries:
            del self._entries[value]

    def _evaluate(self, entry: Entry) -> frozenset[str]:
        try:
            return frozenset(self._values(entry))
        except Exception:
            logger.exception("index %s cannot tell the values of %r", self.name, entry)
            return frozenset()


def owner_uids(entry: Entry) -> list[str]:
    """Return the uids of an entry's owners: the values of the index that every store has."""
    return [owner.uid for owner in entry.meta.owner_references or ()]


def namespace_of(entry: Entry) -> list[str]:
    """Return an entry's namespace: the values of the other index that every store has."""
    return [entry.key.namespace]
