"""Tell from an object's managedFields whether an apply would change anything. Pure.

A manager's entry lists the paths that it owns (server-side apply, KEP-555). When they are exactly
the paths of what it wants, and the live values there are what it wants, applying is idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object

_QUANTITIES = frozenset(
    {
        "requests",
        "limits",
        "capacity",
        "hard",
        "sizeLimit",
        "divisor",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
        "averageValue",
        "overhead",
        "podFixed",
    }
)
"""Fields that hold quantities, which the API server rewrites in canonical form.

Elsewhere "1" and "1000m" are different texts, such as the values of two variables.
"""

_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "apiGroup": ("", "rbac.authorization.k8s.io"),
    "apiVersion": ("v1",),
    "defaultMode": (420,),
    "divisor": ("0",),
    "expirationSeconds": (3600,),
    "kind": ("PersistentVolumeClaim",),
    "name": ("",),
    "protocol": ("TCP",),
    "scheme": ("HTTP",),
    "selectPolicy": ("Max",),
    "status": ({"phase": "Pending"},),
    "volumeMode": ("Filesystem",),
}
"""Defaults of built-in kinds inside values that are owned as a whole, such as a claim template.

A default that is missing here costs one request for each such object at each start.
"""

# The server takes them from the request, but they are never owned.
_UNOWNED_METADATA = frozenset({"name", "namespace", "uid", "resourceVersion"})

_SCALARS = frozenset({str, int, bool})


def find_entry(live: Object, manager: str, *, subresource: str = "") -> Object | None:
    """Return the managedFields entry of what a manager applied, if there is one."""
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and (entry.get("subresource") or "") == subresource
        ):
            found: Object = entry
            return found
    return None


def is_applied(desired: Object, live: Object, manager: str, *, subresource: str = "") -> bool:
    """Tell whether applying `desired` as `manager` would leave a live object as it is.

    `live` must have its managedFields. A wrong "no" costs a request. A "yes" is certain, but for
    one case: a map of a custom kind that is owned as a whole, and of which nothing is left.
    """
    entry = find_entry(live, manager, subresource=subresource)
    if entry is None or entry.get("apiVersion") != desired.get("apiVersion"):
        return False
    paths, references = _split_references(entry.get("fieldsV1") or {}, "f:")
    owned, wanted = _split_references(owned_part(desired), "")
    if not _read_fields(msgspec.json.encode(paths)).matches(owned, live):
        return False
    if not references:
        return not wanted
    found = (live.get("metadata") or {}).get("ownerReferences")
    return _matches_references(references, wanted or (), found or ())


def _split_references(value: Object, prefix: str) -> tuple[Object, Any]:
    """Take the owner references from an object, or from the paths of one.

    They hold an owner's UID. All other paths are the same in the objects that one function built,
    and read once for all of them.
    """
    metadata, references = f"{prefix}metadata", f"{prefix}ownerReferences"
    inner = value.get(metadata) or {}
    if references not in inner:
        return value, None
    rest = {key: part for key, part in value.items() if key != metadata}
    others = {key: part for key, part in inner.items() if key != references}
    if others.keys() - {"."}:
        rest[metadata] = others
    return rest, inner[references]


def _matches_references(paths: Object, desired: Sequence[Object], live: Sequence[Object]) -> bool:
    by_uid = {reference.get("uid"): reference for reference in live}
    return len(desired) == len(paths) - ("." in paths) and all(
        f'k:{{"uid":"{wanted["uid"]}"}}' in paths
        and _covers(wanted, by_uid.get(wanted["uid"]), False)
        for wanted in desired
    )


def owned_part(desired: Object) -> Object:
    """Return the fields of an applied object that its manager comes to own."""
    owned = desired.copy()
    metadata = owned.pop("metadata", None) or {}
    owned.pop("apiVersion", None)
    owned.pop("kind", None)
    metadata = {key: value for key, value in metadata.items() if key not in _UNOWNED_METADATA}
    if metadata:
        owned["metadata"] = metadata
    return owned


def project(desired: Any, live: Any) -> Any:
    """Return the part of a live value that lies at the paths of a desired one; lists as a whole."""
    if isinstance(desired, dict) and isinstance(live, dict):
        return {key: project(value, live.get(key)) for key, value in desired.items()}
    return live


def extract_owned(live: Object, manager: str, *, subresource: str = "") -> Object:
    """Return the part of a live object that a manager applied, as it would apply it again."""
    entry = find_entry(live, manager, subresource=subresource)
    if entry is None:
        return {}
    extracted: Object = _extract(entry.get("fieldsV1") or {}, live)
    return extracted


def _extract(fields: Object, live: Any) -> Any:
    members = {name: inner for name, inner in fields.items() if name != "."}
    if not members:
        return live
    if isinstance(live, dict):
        return {
            name[2:]: _extract(inner, live[name[2:]])
            for name, inner in members.items()
            if name[2:] in live
        }
    if not isinstance(live, list):
        return live
    found = []
    for name, inner in members.items():
        value = msgspec.json.decode(name[2:])
        if name.startswith("k:"):
            items = (item for item in live if _has_keys(item, value, defaulted=False))
            found += [_extract(inner, item) for item in items]
        elif value in live:
            found.append(value)
    return found


class _Fields:
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
        return _covers(desired, live, self.is_quantity)


class _Map(_Fields):
    """Some fields of a map."""

    __slots__ = ("_members",)

    def __init__(self, key: str, members: Object, *, is_quantity: bool) -> None:
        super().__init__(key, is_quantity=is_quantity)
        names = ((member[2:], inner) for member, inner in members.items())
        self._members = {
            name: _build_fields(name, inner, is_quantity=is_quantity or name in _QUANTITIES)
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
            is_same = kind in _SCALARS and type(found) is kind and value == found
            if not (is_same and type(inner) is _Fields) and not inner.matches(value, found):
                return False
        return not left


class _KeyedItems(_Fields):
    """Items of a list that are told apart by some of their fields."""

    __slots__ = ("_members",)

    def __init__(self, key: str, members: Object, *, is_quantity: bool) -> None:
        super().__init__(key, is_quantity=is_quantity)
        # Such as `k:{"containerPort":80,"protocol":"TCP"}`.
        self._members: list[tuple[Mapping[str, Any], _Fields]] = [
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
                _has_keys(live[0], keys, defaulted=False)
                and _has_keys(desired[0], keys, defaulted=True)
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


class _Values(_Fields):
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


class _Unknown(_Fields):
    """Paths that no apply of ours has: items by their place, or of several sorts."""

    __slots__ = ()

    def matches(self, desired: Any, live: Any) -> bool:
        return False


_SORTS: Mapping[str, type[_Map | _KeyedItems | _Values]] = {
    "f:": _Map,
    "k:": _KeyedItems,
    "v:": _Values,
}


def _build_fields(key: str, fields: Object, *, is_quantity: bool) -> _Fields:
    members = {name: inner for name, inner in fields.items() if name != "."}
    if not members:
        return _Fields(key, is_quantity=is_quantity)
    sorts = {name[:2] for name in members}
    sort = _SORTS.get(sorts.pop())
    if sort is None or sorts:
        return _Unknown(key, is_quantity=is_quantity)
    return sort(key, members, is_quantity=is_quantity)


@lru_cache(maxsize=1024)
def _read_fields(text: bytes) -> _Fields:
    return _build_fields("", msgspec.json.decode(text), is_quantity=False)


def _owns_nothing(value: Any) -> bool:
    """Tell whether applying a value may own no field: so it is with an empty list with keys."""
    if isinstance(value, dict):
        return bool(value) and all(map(_owns_nothing, value.values()))
    return isinstance(value, list) and not value


def _find(items: list[Any], keys: Mapping[str, Any]) -> int | None:
    for index, item in enumerate(items):
        if _has_keys(item, keys, defaulted=False):
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
        if index not in taken and _has_keys(item, keys, defaulted=True):
            return index
    return None


def _has_keys(item: Any, keys: Mapping[str, Any], *, defaulted: bool) -> bool:
    if not isinstance(item, dict):
        return False
    for key, value in keys.items():
        if key in item:
            if item[key] != value:
                return False
        elif not defaulted or value == "":
            return False
    return True


def _covers(desired: Any, live: Any, is_quantity: bool) -> bool:
    """Tell whether a live value is the desired one, give or take what the server adds to it.

    The value is owned as a whole: its entry does not tell what was left out of it lately, so only
    known defaults may stand in a live map beside what is desired.
    """
    if not desired and live is None and isinstance(desired, dict | list):
        return True
    if isinstance(desired, dict):
        return isinstance(live, dict) and _covers_map(desired, live, is_quantity)
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(desired) == len(live)
            and all(_covers(a, b, is_quantity) for a, b in zip(desired, live, strict=True))
        )
    if type(desired) is type(live) and desired == live:
        return True
    return (is_quantity and _is_same_quantity(desired, live)) or _is_same_number(desired, live)


def _covers_map(desired: Object, live: Object, is_quantity: bool) -> bool:
    for key, value in desired.items():
        found, kind = live.get(key), type(value)
        if kind in _SCALARS and type(found) is kind and value == found:
            continue
        if not _covers(value, found, is_quantity or key in _QUANTITIES):
            return False
    return len(live) == len(desired) or all(
        key in desired or _is_default(key, value) for key, value in live.items()
    )


def _is_default(key: str, value: Any) -> bool:
    return value is None or value in _DEFAULTS.get(key, ())


def _is_same_number(desired: Any, live: Any) -> bool:
    numbers = (int, float)
    return (
        isinstance(desired, numbers)
        and isinstance(live, numbers)
        and not isinstance(desired, bool)
        and not isinstance(live, bool)
        and desired == live
    )


def _is_same_quantity(desired: Any, live: Any) -> bool:
    if live is None:
        return False
    try:
        return Quantity(desired) == Quantity(live)
    except ValueError:
        return False
