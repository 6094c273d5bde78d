"""Apply and update, as structured-merge-diff defines them: the object and who owns its fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.compare import Comparison, compare_values
from kubewright.local.apiserver.apply.conflict import ApplyConflicts, find_conflicts
from kubewright.local.apiserver.apply.field_set import EMPTY, FieldSet
from kubewright.local.apiserver.apply.managers import (
    Identity,
    Manager,
    Managers,
    reconcile_managers,
)
from kubewright.local.apiserver.apply.merge import merge_values, remove_fields
from kubewright.local.apiserver.apply.typed_value import build_field_set
from kubewright.local.apiserver.schema.node import SchemaNode

# No one owns what tells which object it is, nor what only the server writes.
UNOWNED = FieldSet.of(
    [
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", "f:" + name)
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    ]
)


class Versions(Protocol):
    """The other versions of a kind, whose managers own fields by other names."""

    def schema(self, api_version: str) -> SchemaNode | None:
        """Return the schema of a version; None where there is no such version any more."""
        ...

    def convert(self, obj: Object, api_version: str) -> Object:
        """Return the object in another version."""
        ...


class Updater(msgspec.Struct, frozen=True):
    """Merges objects of one version and works out what each manager then owns.

    `reset` holds the fields that this endpoint may not own. Without `versions`, managers of all
    versions are taken to name fields alike.
    """

    schema: SchemaNode
    api_version: str
    reset: FieldSet = EMPTY
    versions: Versions | None = None

    @classmethod
    def of(
        cls,
        schema: SchemaNode,
        api_version: str,
        reset: Sequence[Sequence[str]],
        versions: Versions | None,
    ) -> Updater:
        """Build an updater; `reset` are paths of field names."""
        paths = FieldSet.of([["f:" + name for name in path] for path in reset]) if reset else EMPTY
        return cls(schema, api_version, paths, versions)

    def schema_of(self, api_version: str) -> SchemaNode | None:
        """Return the schema by which managers of a version name fields."""
        if self.versions is None or api_version == self.api_version:
            return self.schema
        return self.versions.schema(api_version)

    def convert(self, obj: Object, api_version: str, source: str) -> Object:
        """Return an object of the version `source` in another one."""
        if self.versions is None or api_version == source:
            return obj
        return self.versions.convert(obj, api_version)

    def update(self, live: Object, new: Object, managers: Managers) -> tuple[FieldSet, Managers]:
        """Return the fields that a write sets, and what the managers own once it has set them."""
        managers = reconcile_managers(managers, self.schema_of)
        comparison = self._compare(live, new, self.api_version)
        managers = self._give_up(live, new, comparison, managers, None, force=True)
        return comparison.written.difference(UNOWNED), managers

    def apply(
        self, live: Object, config: Object, managers: Managers, me: Manager, *, force: bool
    ) -> tuple[Object, Managers]:
        """Lay a configuration over the live object.

        Returns:
            The merged object, not yet defaulted, and the managers; `me` owns what it configures.

        Raises:
            ApplyConflicts: it changes fields of others, and `force` is not set.
        """
        managers = reconcile_managers(managers, self.schema_of)
        last = managers.get(me.identity)
        merged = merge_values(live, config, self.schema)
        fields = build_field_set(config, self.schema).recursive_difference(self.reset)
        # While pruning, what tells which object it is counts as owned: it must stay.
        managers[me.identity] = me.owning(fields)
        new = self._prune(merged, managers, me, last)
        comparison = self._compare(live, new, self.api_version)
        managers = self._give_up(live, new, comparison, managers, me.identity, force=force)
        owned = fields.difference(UNOWNED)
        if not owned:
            managers.pop(me.identity, None)
        elif last is not None and last.fields == owned and last.api_version == me.api_version:
            # Equal fields keep the entry as it was read, with its time.
            managers[me.identity] = last
        else:
            managers[me.identity] = me.owning(owned)
        return new, managers

    def _compare(self, live: Object, new: Object, api_version: str) -> Comparison:
        if live is new:
            return Comparison()
        schema = self.schema_of(api_version) or self.schema
        old = self.convert(live, api_version, self.api_version)
        converted = self.convert(new, api_version, self.api_version)
        return compare_values(old, converted, schema).without(self.reset)

    def _give_up(
        self,
        live: Object,
        new: Object,
        comparison: Comparison,
        managers: Managers,
        me: Identity | None,
        *,
        force: bool,
    ) -> Managers:
        """Take from the other managers what has changed or gone; who owns nothing more goes."""
        compared = {self.api_version: comparison}
        taken: dict[Manager, FieldSet] = {}
        kept: Managers = {}
        for identity, manager in managers.items():
            if identity == me:
                kept[identity] = manager
                continue
            version = manager.api_version if self.versions is not None else self.api_version
            if version not in compared:
                compared[version] = self._compare(live, new, version)
            found = compared[version]
            conflicts = manager.fields.intersection(found.written)
            if conflicts:
                taken[manager] = conflicts
            fields = manager.fields.difference(conflicts).difference(found.removed)
            kept[identity] = (
                manager if fields.tree == manager.fields.tree else manager.owning(fields)
            )
        if taken and not force:
            raise ApplyConflicts(find_conflicts(taken))
        return {identity: manager for identity, manager in kept.items() if manager.fields}

    def _prune(
        self, merged: Object, managers: Managers, me: Manager, last: Manager | None
    ) -> Object:
        """Remove what this manager applied last time, does not now, and no one else owns."""
        if last is None or not last.fields:
            return merged
        owned = managers[me.identity].fields
        if last.api_version == me.api_version and not last.fields.difference(owned):
            return merged
        version = last.api_version
        node = self.schema_of(version)
        if node is None:
            return merged
        old = self.convert(merged, version, self.api_version)
        last_fields = last.fields.with_named_fields(node)
        pruned = remove_fields(old, last_fields, node)
        pruned = self._add_back_owned(old, pruned, version, managers)
        before = build_field_set(old, node).with_named_fields(node)
        after = build_field_set(pruned, node).with_named_fields(node)
        # Fields that went along but were never applied by this manager come back.
        gone = before.difference(after).intersection(last_fields)
        return self.convert(_as_object(remove_fields(old, gone, node)), self.api_version, version)

    def _add_back_owned(self, merged: Object, pruned: Any, version: str, managers: Managers) -> Any:
        by_version: dict[str, FieldSet] = {version: EMPTY}
        for manager in managers.values():
            key = manager.api_version if self.versions is not None else version
            by_version[key] = manager.fields.union(by_version.get(key, EMPTY))
        current = version
        for target, owned in by_version.items():
            node = self.schema_of(target)
            if node is None:
                continue
            merged = self.convert(merged, target, current)
            pruned = self.convert(_as_object(pruned), target, current)
            current = target
            before = build_field_set(merged, node).with_named_fields(node)
            after = build_field_set(pruned, node).with_named_fields(node)
            kept = after.union(owned.with_named_fields(node))
            pruned = remove_fields(merged, before.difference(kept), node)
        return self.convert(_as_object(pruned), version, current)


def _as_object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}
