"""Indexes of a store: from a value to the entries that have it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
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
        self._values_of: dict[NamespacedName, tuple[str, ...]] = {}

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with its key."""
        key, values = entry.key, self._evaluate(entry)
        before = self._values_of.get(key, ())
        if before != values:
            for value in before:
                self._drop(key, value)
            if values:
                self._values_of[key] = values
            else:
                self._values_of.pop(key, None)
        for value in values:
            found = self._entries.get(value)
            if found is None:
                self._entries[value] = {key: entry}
            else:
                found[key] = entry

    def remove(self, key: NamespacedName) -> None:
        """Forget an entry."""
        for value in self._values_of.pop(key, ()):
            self._drop(key, value)

    def find(self, value: str) -> list[Entry]:
        """Return the entries that have a value."""
        return list(self._entries.get(value, {}).values())

    def _drop(self, key: NamespacedName, value: str) -> None:
        entries = self._entries[value]
        del entries[key]
        if not entries:
            del self._entries[value]

    def _evaluate(self, entry: Entry) -> tuple[str, ...]:
        try:
            values = tuple(self._values(entry))
            return values if len(values) < 2 else tuple(dict.fromkeys(values))
        # A plain function that raises CancelledError was not cancelled: it failed.
        except (Exception, asyncio.CancelledError):
            logger.exception("index %s cannot tell the values of %r", self.name, entry)
            return ()


def owner_uids(entry: Entry) -> Sequence[str]:
    """Return the uids of an entry's owners: the values of the index that every store has."""
    owners = entry.meta.owner_references
    return [owner.uid for owner in owners] if owners else ()


def namespace_of(entry: Entry) -> Sequence[str]:
    """Return an entry's namespace: the values of the other index that every store has."""
    return (entry.key.namespace,)
