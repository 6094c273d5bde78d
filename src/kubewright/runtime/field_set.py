"""The paths that a manager owns of an object (`fieldsV1`), compared with what it wants. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kubewright.api.resource import Object
from kubewright.runtime.live_value import QUANTITIES, SCALARS, covers


@lru_cache(maxsize=1024)
def read_field_set(text: bytes) -> FieldSet:
    """Read paths from the JSON text of a `fieldsV1`, once for all objects that have them."""
    return _build_fields("", msgspec.json.decode(text), is_quantity=False)


class FieldSet:
    """The paths of one value that a manager owns: here, the value as a whole.

    `is_quantity` tells that the texts in it are quantities, and `is_selector` that the server's
    defaults add nothing to a map that is owned as a whole.
    """

    __slots__ = ("is_quantity", "is_selector")

    def __init__(self, key: str, *, is_quantity: bool) -> None:
        self.is_quantity = is_quantity
        self.is_selector = key == "matchLabels" or key.lower().endswith("selector")

    def matches(self, desired: Any, live: Any) -> bool:
        """Tell whether these are just the paths of a desired value, and the live one has it."""
        if live is None and not desired:
            # The server drops what is empty or zero when it stores an object (Go's `omitempty`).
            return True
        if desired == {} and not self.is_selector and isinstance(live, dict):
            # What is in it was put there by others, or by the server's defaults.
            return True
        return covers(desired, live, self.is_quantity)


class _Map(FieldSet):
    """Some fields of a map."""

    __slots__ = ("_members",)

    def __init__(self, key: str, members: Object, *, is_quantity: bool) -> None:
        super().__init__(key, is_quantity=is_quantity)
        names = ((member[2:], inner) for member, inner in members.items())
        self._members = {
            name: _build_fields(name, inner, is_quantity=is_quantity or name in QUANTITIES)
            for name, inner in names
        }

    def matches(self, desired: Any, live: Any) -> bool:
        # At a start, every child of every object comes by here: no sets, no copies.
        if type(desired) is not dict or type(live) is not dict:
            return False
        members = self._members
        left = len(members)
        for key, value in desired.items():
            inner = members.get(key)
            if inner is None:
                if not _owns_nothing(value):
                    return False
                continue
            left -= 1
            found, kind = live.get(key), type(value)
            is_same = kind in SCALARS and type(found) is kind and value == found
            if not (is_same and type(inner) is FieldSet) and not inner.matches(value, found):
                return False
        return not left


class _KeyedItems(FieldSet):
    """Items of a list that are told apart by some of their fields."""

    __slots__ = ("_members",)

    def __init__(self, key: str, members: Object, *, is_quantity: bool) -> None:
        super().__init__(key, is_quantity=is_quantity)
        # Such as `k:{"containerPort":80,"protocol":"TCP"}`.
        self._members: list[tuple[Mapping[str, Any], FieldSet]] = [
            (msgspec.json.decode(member[2:]), _build_fields(key, inner, is_quantity=is_quantity))
            for member, inner in members.items()
        ]

    def matches(self, desired: Any, live: Any) -> bool:
        if not isinstance(desired, list) or not isinstance(live, list):
            return False
        if len(desired) != len(self._members):
            return False
        if len(desired) == len(live) == 1:
            keys, fields = self._members[0]
            return (
                has_keys(live[0], keys, defaulted=False)
                and has_keys(desired[0], keys, defaulted=True)
                and fields.matches(desired[0], live[0])
            )
        places: dict[int, int] = {}
        for keys, fields in self._members:
            wanted, found = _find_desired(desired, keys, places), _find(live, keys)
            if wanted is None or found is None:
                return False
            if not fields.matches(desired[wanted], live[found]):
                return False
            places[wanted] = found
        # An apply brings the items that it names into its own order.
        in_order = [places[index] for index in range(len(desired))]
        return in_order == sorted(in_order)


class _Values(FieldSet):
    """Some values of a list that is a set."""

    __slots__ = ("_members",)

    def __init__(self, key: str, members: Object, *, is_quantity: bool) -> None:
        super().__init__(key, is_quantity=is_quantity)
        self._members = [msgspec.json.decode(member[2:]) for member in members]

    def matches(self, desired: Any, live: Any) -> bool:
        if not isinstance(desired, list) or not isinstance(live, list):
            return False
        values = self._members
        return (
            len(values) == len(desired)
            and all(value in desired for value in values)
            and all(value in live for value in values)
        )


class _Unknown(FieldSet):
    """Paths that no apply of ours has: items by their place, or of several sorts."""

    __slots__ = ()

    def matches(self, desired: Any, live: Any) -> bool:
        return False


_SORTS: Mapping[str, type[_Map | _KeyedItems | _Values]] = {
    "f:": _Map,
    "k:": _KeyedItems,
    "v:": _Values,
}


def _build_fields(key: str, fields: Object, *, is_quantity: bool) -> FieldSet:
    members = {name: inner for name, inner in fields.items() if name != "."}
    if not members:
        return FieldSet(key, is_quantity=is_quantity)
    sorts = {name[:2] for name in members}
    sort = _SORTS.get(sorts.pop())
    if sort is None or sorts:
        return _Unknown(key, is_quantity=is_quantity)
    return sort(key, members, is_quantity=is_quantity)


def _owns_nothing(value: Any) -> bool:
    """Tell whether applying a value may own no field: so it is with an empty list with keys."""
    if isinstance(value, dict):
        return bool(value) and all(map(_owns_nothing, value.values()))
    return isinstance(value, list) and not value


def _find(items: list[Any], keys: Mapping[str, Any]) -> int | None:
    for index, item in enumerate(items):
        if has_keys(item, keys, defaulted=False):
            return index
    return None


def _find_desired(
    items: list[Any], keys: Mapping[str, Any], taken: Mapping[int, int]
) -> int | None:
    """Find the item with some keys; one that is left out has its default, as `protocol: TCP`."""
    exact = _find(items, keys)
    if exact is not None and exact not in taken:
        return exact
    for index, item in enumerate(items):
        if index not in taken and has_keys(item, keys, defaulted=True):
            return index
    return None


def has_keys(item: Any, keys: Mapping[str, Any], *, defaulted: bool) -> bool:
    """Tell whether an item of a list has some keys; `defaulted`: one that is left out counts."""
    if not isinstance(item, dict):
        return False
    for key, value in keys.items():
        if key in item:
            if item[key] != value:
                return False
        elif not defaulted or value == "":
            return False
    return True
