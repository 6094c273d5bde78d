"""Tell from an object's managedFields whether an apply would change anything. Pure.

A manager's entry lists the paths that it owns (server-side apply, KEP-555). When they are exactly
the paths of what it wants, and the live values there are what it wants, applying is idle.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.api.resource import Object
from kubewright.runtime.field_set import FieldSet, has_keys, read_field_set

# The server takes them from the request, but they are never owned.
_UNOWNED_METADATA = frozenset({"name", "namespace", "uid", "resourceVersion"})


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
    if not _read(paths).matches(owned, live):
        return False
    if not references:
        return not wanted
    return _read(references).matches(wanted, (live.get("metadata") or {}).get("ownerReferences"))


def _read(paths: Object) -> FieldSet:
    return read_field_set(msgspec.json.encode(paths))


def _split_references(value: Object, prefix: str) -> tuple[Object, Any]:
    """Take the owner references from an object, or from the paths of one.

    They hold an owner's UID. All other paths are the same in the objects that one function built,
    and read once for all of them; these, once for the children of one owner.
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
            items = (item for item in live if has_keys(item, value, defaulted=False))
            found += [_extract(inner, item) for item in items]
        elif value in live:
            found.append(value)
    return found
