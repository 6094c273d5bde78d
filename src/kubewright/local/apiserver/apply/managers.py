"""The managers of an object: who owns which fields, since when, in which version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.field_set import FieldSet, Tree
from kubewright.local.apiserver.apply.path_element import PathElementError
from kubewright.local.apiserver.schema.node import SchemaNode

Operation: TypeAlias = Literal["Apply", "Update"]
Identity: TypeAlias = tuple[str, str, str, str]
Managers: TypeAlias = dict[Identity, "Manager"]

MAX_UPDATE_MANAGERS = 10
_ANCIENT = "ancient-changes"
_FIELDS_TYPE = "FieldsV1"


class ManagerIdentity(msgspec.Struct, frozen=True):
    """Who writes: the field manager's name, the version it writes in, and to which subresource."""

    name: str
    api_version: str
    subresource: str = ""


class Manager(msgspec.Struct, frozen=True, eq=False):
    """One entry of managedFields.

    `source` is the entry as it was read: it is written back as it is while nothing changed.
    """

    name: str
    operation: Operation
    api_version: str
    subresource: str
    time: str
    fields: FieldSet
    source: Object | None = None

    @property
    def identity(self) -> Identity:
        """What tells managers apart; who applies is the same manager in all versions."""
        version = "" if self.operation == "Apply" else self.api_version
        return self.name, self.operation, version, self.subresource

    def owning(self, fields: FieldSet) -> Manager:
        """Return the manager with other fields."""
        return self if fields is self.fields else replace(self, fields=fields, source=None)

    def to_object(self) -> Object:
        """Return the entry as an API server writes it."""
        if self.source is not None:
            return self.source
        entry: Object = {"manager": self.name, "operation": self.operation}
        entry["apiVersion"] = self.api_version
        if self.time:
            entry["time"] = self.time
        entry["fieldsType"] = _FIELDS_TYPE
        entry["fieldsV1"] = self.fields.to_fields()
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def read_managers(entries: Sequence[Mapping[str, Any]] | None) -> Managers:
    """Read the managedFields of a stored object; they are taken as they are.

    Entries of an unknown kind, which nothing of ours writes, are left out.
    """
    managers: Managers = {}
    for entry in entries or ():
        if entry.get("operation") in ("Apply", "Update") and entry.get("fieldsType"):
            manager = _manager(entry, FieldSet(entry.get("fieldsV1") or {}))
            managers[manager.identity] = replace(manager, source=dict(entry))
    return managers


def parse_managers(entries: Sequence[Mapping[str, Any]]) -> Managers:
    """Read managedFields that a client sent.

    Raises:
        PathElementError: an entry cannot be read; the caller then keeps what the object has.
    """
    managers: Managers = {}
    for entry in entries:
        if entry.get("operation") not in ("Apply", "Update") or not entry.get("apiVersion"):
            raise PathElementError("an entry has no operation or apiVersion")
        if entry.get("fieldsType") != _FIELDS_TYPE:
            raise PathElementError(f"unknown fieldsType {entry.get('fieldsType')!r}")
        manager = _manager(entry, FieldSet.from_fields(entry.get("fieldsV1") or {}))
        managers[manager.identity] = manager
    return managers


def _manager(entry: Mapping[str, Any], fields: FieldSet) -> Manager:
    return Manager(
        name=entry.get("manager") or "",
        operation=entry["operation"],
        api_version=entry.get("apiVersion") or "",
        subresource=entry.get("subresource") or "",
        time=entry.get("time") or "",
        fields=fields,
    )


def write_managers(managers: Managers) -> list[Object]:
    """Return managedFields in the order that API servers keep."""
    return [manager.to_object() for manager in sort_managers(managers.values())]


def sort_managers(managers: Iterable[Manager]) -> list[Manager]:
    """Return managers in the order of managedFields: appliers first, then by time."""
    return sorted(
        managers, key=lambda m: (m.operation, m.time, m.name, m.api_version, m.subresource)
    )


def cap_update_managers(managers: Managers) -> Managers:
    """Merge the oldest updaters until ten are left; who was merged is `ancient-changes`.

    Only entries of one version merge, so more than ten may stay.
    """
    updaters = [m for m in managers.values() if m.operation == "Update"]
    surplus = len(updaters) - MAX_UPDATE_MANAGERS
    if surplus <= 0:
        return managers
    updaters.sort(key=lambda m: (m.time, m.identity))
    capped = dict(managers)
    first: dict[str, Manager] = {}
    for manager in updaters:
        if surplus <= 0:
            break
        version = manager.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = (_ANCIENT, "Update", version, "")
        if bucket not in capped:
            capped[bucket] = replace(first[version], name=_ANCIENT, subresource="", source=None)
            del capped[first[version].identity]
        old = capped[bucket]
        capped[bucket] = replace(
            old, fields=manager.fields.union(old.fields), time=manager.time, source=None
        )
        if manager.identity != bucket:
            capped.pop(manager.identity, None)
        surplus -= 1
    return capped


def reconcile_managers(
    managers: Managers, schema_of: Callable[[str], SchemaNode | None]
) -> Managers:
    """Fit owned fields to a schema that changed: below what has become atomic, nothing is owned.

    Managers whose version has no schema any more are left out.
    """
    reconciled: Managers = {}
    for identity, manager in managers.items():
        node = schema_of(manager.api_version)
        if node is None:
            continue
        tree = _reconcile(manager.fields.tree, node)
        if tree is not manager.fields.tree:
            manager = manager.owning(FieldSet(tree))
        reconciled[identity] = manager
    return reconciled


def _reconcile(tree: Tree, node: SchemaNode) -> Tree:
    kind = node.kind
    if not tree or kind in ("scalar", "untyped"):
        return tree
    if node.list_type == "atomic" if kind == "array" else node.map_type == "atomic":
        return {}
    changed: Tree | None = None
    for element, below in tree.items():
        if not below:
            continue
        child = _child(element, node)
        fitted = _reconcile(below, child) if child is not None else below
        if fitted is not below:
            changed = changed or dict(tree)
            changed[element] = fitted
    return tree if changed is None else changed


def _child(element: str, node: SchemaNode) -> SchemaNode | None:
    if node.kind == "array":
        return node.items
    if element[0] != "f":
        return None
    return node.fields.get(element[2:]) or node.values
