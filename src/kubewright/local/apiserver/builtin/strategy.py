"""The strategy of built-in kinds: what all share, and the `Rules` of each."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object, Resource
from kubewright.local.apiserver.builtin import codec
from kubewright.local.apiserver.builtin.codec import KEPT_LISTS
from kubewright.local.apiserver.builtin.defaults import apply_defaults
from kubewright.local.apiserver.builtin.rules import Rules
from kubewright.local.apiserver.builtin.table import AGE, NAME, format_age
from kubewright.local.apiserver.kind import Column, Decoded
from kubewright.local.apiserver.objectmeta import (
    validate_object_meta,
    validate_object_meta_update,
)

# Where the rules of each group live; a module is imported when the first of its kinds is used.
_MODULES: dict[str, str] = {
    "": "core",
    "admissionregistration.k8s.io": "admissionregistration",
    "apiregistration.k8s.io": "extension_apis",
    "apps": "apps",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "certificates.k8s.io": "certificates",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery_endpoints",
    "events.k8s.io": "events",
    "flowcontrol.apiserver.k8s.io": "extension_apis",
    "networking.k8s.io": "networking",
    "node.k8s.io": "scheduling",
    "policy": "policy",
    "rbac.authorization.k8s.io": "rbac",
    "resource.k8s.io": "extension_apis",
    "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage",
    "storagemigration.k8s.io": "storage",
}
# Kinds of the core group that have a module apart.
_CORE_MODULES: dict[str, str] = {
    "Event": "events",
    "LimitRange": "core_workloads",
    "Node": "nodes",
    "PersistentVolume": "core_storage",
    "PersistentVolumeClaim": "core_storage",
    "Pod": "core_pods",
    "PodTemplate": "core_workloads",
    "ReplicationController": "core_workloads",
    "ResourceQuota": "core_workloads",
    "Service": "core_services",
}
_PLAIN = Rules()
# Groups whose kinds may have finalizers without a domain.
_ANY_FINALIZER = frozenset(
    {"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"}
)


def find_rules(resource: Resource) -> Rules:
    """Return the rules of a kind; a kind without any of its own has those that all share."""
    name = _MODULES.get(resource.group)
    if not resource.group:
        name = _CORE_MODULES.get(resource.kind, name)
    if name is None:
        return _PLAIN
    module = import_module(f"kubewright.local.apiserver.builtin.{name}")
    rules: Mapping[str, Rules] = module.RULES
    # Two groups have a kind of the same name: the core one's is told apart.
    core_key = "" if resource.group else f"core.{resource.kind}"
    return rules.get(core_key) or rules.get(resource.kind) or _PLAIN


class BuiltinStrategy:
    """The `Strategy` of one built-in kind (see `kind.Strategy`)."""

    def __init__(self, resource: Resource, definition: str, *, has_status: bool) -> None:
        self._resource = resource
        self._definition = definition
        self._has_status = has_status

    @cached_property
    def rules(self) -> Rules:
        """The kind's own rules."""
        return find_rules(self._resource)

    @property
    def has_generation(self) -> bool:
        """See `kind.Strategy`."""
        return self.rules.has_generation

    @property
    def has_status(self) -> bool:
        """See `kind.Strategy`."""
        return self._has_status

    @property
    def allow_create_on_update(self) -> bool:
        """See `kind.Strategy`."""
        return self.rules.allow_create_on_update

    @property
    def allow_unconditional_update(self) -> bool:
        """See `kind.Strategy`."""
        return self.rules.allow_unconditional_update

    def decode(self, obj: Object) -> Decoded:
        """Decode as Go's JSON decoder into the kind's struct would, and write it back.

        Types are checked, unknown and empty fields dropped, quantities and times made canonical.

        Raises:
            BadRequest: a field has a type that the kind cannot decode.
        """
        return codec.decode(obj, self._definition, self._resource.gvk)

    def default(self, obj: Object) -> None:
        """Fill in defaults, in place."""
        apply_defaults(obj, self._definition)
        self.rules.default(obj)

    def settle(self, obj: Object) -> None:
        """See `kind.Strategy`."""
        for field in KEPT_LISTS.get(self._resource.kind, ()):
            if obj.get(field) == []:
                obj[field] = None

    def prepare_for_create(self, obj: Object) -> None:
        """Drop the status, then apply the kind's own rule."""
        if self._has_status and not self.rules.takes_status:
            self._clear_status(obj)
        self.rules.prepare_for_create(obj)

    def _clear_status(self, obj: Object) -> None:
        obj.pop("status", None)
        codec.complete(obj, self._definition)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Keep the old status, then apply the kind's own rule."""
        _restore(obj["metadata"], old["metadata"], has_generation=self.has_generation)
        if self._has_status:
            _keep(obj, old, "status")
        self.rules.prepare_for_update(obj, old)

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        """Keep of the old object all that a status write may not change."""
        _restore(obj["metadata"], old["metadata"], has_generation=self.has_generation)
        for path in self.rules.status_resets:
            if path == ("metadata",):
                _reset_metadata(obj, old)
            elif len(path) == 1:
                _keep(obj, old, path[0])
            else:
                _keep(obj["metadata"], old["metadata"], path[1])
        self.rules.prepare_for_status_update(obj, old)

    def validate(self, obj: Object) -> list[Cause]:
        """Return what is wrong with a new object: its metadata, then the kind's own rules."""
        causes = validate_object_meta(
            obj["metadata"],
            namespaced=self._resource.namespaced,
            name_rule=self.rules.name_rule,
            finalizers_need_domain=self._resource.group not in _ANY_FINALIZER,
        )
        return causes + self.rules.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change."""
        causes = validate_object_meta_update(obj["metadata"], old["metadata"])
        return causes + self.rules.validate(obj) + self.rules.validate_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change through `/status`."""
        causes = validate_object_meta_update(obj["metadata"], old["metadata"])
        return causes + self.rules.validate_status_update(obj, old)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the values for field selectors, beyond metadata.name and metadata.namespace."""
        return {label: read(obj) for label, read in self.rules.fields.items()}

    def selectable_field_names(self) -> frozenset[str]:
        """Return the labels that a field selector may name, beyond name and namespace."""
        return frozenset(self.rules.fields)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return the texts of Warning headers for a write."""
        return self.rules.warnings(obj, old)

    def columns(self) -> list[Column]:
        """Return the Table columns."""
        table = self.rules.table
        if table is None:
            return [NAME, AGE]
        return [*((NAME,) if table.names_first else ()), *table.columns]

    def cells(self, obj: Object, now: datetime) -> list[Any]:
        """Return the Table cells of an object, one for each column."""
        table = self.rules.table
        rest = table.cells(obj, now) if table else [format_age(obj, now)]
        if table is not None and not table.names_first:
            return rest
        return [obj["metadata"].get("name", ""), *rest]


def _restore(new: Object, old: Object, *, has_generation: bool) -> None:
    """Take from the old metadata what no write changes, without a complaint."""
    _keep(new, old, "creationTimestamp")
    if not has_generation:
        _keep(new, old, "generation")


def _keep(new: Object, old: Object, key: str) -> None:
    if key in old:
        new[key] = deepcopy(old[key])
    else:
        new.pop(key, None)


def _reset_metadata(obj: Object, old: Object) -> None:
    """Keep the old metadata but for what the API server itself maintains."""
    kept = ("resourceVersion", "managedFields")
    fresh = {key: obj["metadata"][key] for key in kept if key in obj["metadata"]}
    rest = {key: value for key, value in deepcopy(old["metadata"]).items() if key not in kept}
    obj["metadata"] = rest | fresh
