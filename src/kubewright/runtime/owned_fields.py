"""Tell from an object's managedFields whether an apply would change anything. Pure.

A manager's entry lists the paths that it owns (server-side apply, KEP-555). When they are exactly
the paths of what it wants, and the live values there are what it wants, applying is idle.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    return _matches(entry.get("fieldsV1") or {}, owned_part(desired), live, False)


def owned_part(desired: Object) -> Object:
    """Return the fields of an applied object that its manager comes to own."""
    owned = {k: v for k, v in desired.items() if k not in ("apiVersion", "kind")}
    metadata = {
        k: v for k, v in (desired.get("metadata") or {}).items() if k not in _UNOWNED_METADATA
    }
    owned.pop("metadata", None)
    return {**({"metadata": metadata} if metadata else {}), **owned}


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


def _matches(fields: Object, desired: Any, live: Any, is_quantity: bool) -> bool:
    """Tell whether a manager owns just the paths of a desired value, and the live one has it."""
    # At a start, every child of every object comes by here: no sets, no copies.
    owned = len(fields) - ("." in fields)
    if not owned:
        if live is None and not desired:
            # The server drops what is empty or zero when it stores an object (Go's `omitempty`).
            return True
        return _covers(desired, live, is_quantity)
    if isinstance(desired, dict):
        return isinstance(live, dict) and _matches_map(fields, owned, desired, live, is_quantity)
    if not isinstance(desired, list) or not isinstance(live, list) or len(desired) != owned:
        return False
    members = [name for name in fields if name != "."]
    if members[0].startswith("k:"):
        return _matches_keyed(fields, members, desired, live, is_quantity)
    return members[0].startswith("v:") and _matches_set(members, desired, live)


def _matches_map(
    fields: Object, owned: int, desired: Object, live: Object, is_quantity: bool
) -> bool:
    for key, value in desired.items():
        inner = fields.get(f"f:{key}")
        if inner is None:
            if not _owns_nothing(value):
                return False
            continue
        owned -= 1
        found, kind = live.get(key), type(value)
        if not inner and kind in _SCALARS and type(found) is kind and value == found:
            continue
        if not inner and value == {} and not _is_selector(key) and isinstance(found, dict):
            # What is in it was put there by others, or by the server's defaults.
            continue
        quantities = is_quantity or key in _QUANTITIES
        if kind is dict and type(found) is dict and (members := len(inner) - ("." in inner)):
            # As `_matches` would go on; most of what is compared are maps in maps.
            if not _matches_map(inner, members, value, found, quantities):
                return False
        elif not _matches(inner, value, found, quantities):
            return False
    return not owned


def _owns_nothing(value: Any) -> bool:
    """Tell whether applying a value may own no field: so it is with an empty list with keys."""
    if isinstance(value, dict):
        return bool(value) and all(map(_owns_nothing, value.values()))
    return isinstance(value, list) and not value


def _matches_keyed(
    fields: Object, members: list[str], desired: list[Any], live: list[Any], is_quantity: bool
) -> bool:
    if len(members) == len(live) == 1:
        keys = _decode_keys(members[0])
        return (
            _has_keys(live[0], keys, defaulted=False)
            and _has_keys(desired[0], keys, defaulted=True)
            and _matches(fields[members[0]], desired[0], live[0], is_quantity)
        )
    places: dict[int, int] = {}
    for member in members:
        keys = _decode_keys(member)
        wanted, found = _find_desired(desired, keys, places), _find(live, keys)
        if wanted is None or found is None:
            return False
        if not _matches(fields[member], desired[wanted], live[found], is_quantity):
            return False
        places[wanted] = found
    # An apply brings the items that it names into its own order.
    in_order = [places[index] for index in range(len(desired))]
    return in_order == sorted(in_order)


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


@lru_cache(maxsize=1024)
def _decode_keys(member: str) -> Mapping[str, Any]:
    """Decode the keys of a list's item: `k:{"containerPort":80,"protocol":"TCP"}`."""
    keys: Mapping[str, Any] = msgspec.json.decode(member[2:])
    return keys


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


def _matches_set(members: list[str], desired: list[Any], live: list[Any]) -> bool:
    values = [msgspec.json.decode(member[2:]) for member in members if member.startswith("v:")]
    return (
        len(values) == len(members) == len(desired)
        and all(value in desired for value in values)
        and all(value in live for value in values)
    )


def _covers(desired: Any, live: Any, is_quantity: bool) -> bool:
    """Tell whether a live value is the desired one, give or take what the server adds to it.

    The value is owned as a whole: its entry does not tell what was left out of it lately, so only
    known defaults may stand in a live map beside what is desired.
    """
    if isinstance(desired, dict):
        if not desired and live is None:
            return True
        return (
            isinstance(live, dict)
            and all(
                _covers(value, live.get(key), is_quantity or key in _QUANTITIES)
                for key, value in desired.items()
            )
            and (
                len(live) == len(desired)
                or all(key in desired or _is_default(key, live[key]) for key in live)
            )
        )
    if isinstance(desired, list):
        if not desired and live is None:
            return True
        return (
            isinstance(live, list)
            and len(desired) == len(live)
            and all(_covers(a, b, is_quantity) for a, b in zip(desired, live, strict=True))
        )
    if type(desired) is type(live) and desired == live:
        return True
    return (is_quantity and _is_same_quantity(desired, live)) or _is_same_number(desired, live)


def _is_selector(key: str) -> bool:
    """Tell whether a map is owned as a whole, and the server's defaults add nothing to it."""
    return key == "matchLabels" or key.lower().endswith("selector")


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
