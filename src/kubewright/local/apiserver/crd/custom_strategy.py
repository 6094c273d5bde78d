"""The strategy of custom kinds: one per served version of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any, Protocol

import msgspec

from kubewright.api.errors import BadRequest, Cause, Forbidden, StatusDetails
from kubewright.api.resource import Object, Resource
from kubewright.local.apiserver.crd.embedded_resource import (
    decode_embedded_metadata,
    has_embedded_resources,
    validate_embedded_resources,
)
from kubewright.local.apiserver.crd.json_path import JSONPath
from kubewright.local.apiserver.crd.list_types import has_list_types, validate_lists
from kubewright.local.apiserver.crd.object_metadata import MalformedMetadata, decode_or_refuse
from kubewright.local.apiserver.crd.printer_columns import PrinterColumns
from kubewright.local.apiserver.crd.ratcheting import drop_unchanged
from kubewright.local.apiserver.crd.scale_mapping import validate_scale
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.typed_nulls import find_nulls
from kubewright.local.apiserver.crd.violation import Violation
from kubewright.local.apiserver.field_error import invalid
from kubewright.local.apiserver.kind import Column, Decoded, ScaleMapping
from kubewright.local.apiserver.objectmeta import (
    dns_subdomain,
    validate_object_meta,
    validate_object_meta_update,
)

# Errors after which expression rules cannot be trusted to see what they expect.
_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_RULES_SKIPPED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)


class ExpressionRules(Protocol):
    """The `x-kubernetes-validations` of one version, compiled."""

    def evaluate(self, obj: Object, old: Object | None) -> tuple[list[Cause], list[str]]:
        """Return what is wrong, and the warnings for what was wrong before and did not change."""
        ...


class VersionRules(msgspec.Struct, frozen=True):
    """All that one version of a CRD says about its objects."""

    resource: Resource
    schema: StructuralSchema
    has_status: bool
    columns: PrinterColumns
    scale: ScaleMapping | None = None
    selectable: Mapping[str, JSONPath] = {}
    expressions: ExpressionRules | None = None
    is_terminating: Callable[[], bool] = lambda: False


class CustomStrategy:
    """The `Strategy` of one version of a custom resource (see `kind.Strategy`)."""

    has_generation = True
    allow_create_on_update = False
    allow_unconditional_update = False

    def __init__(self, rules: VersionRules) -> None:
        self.rules = rules
        self.schema = rules.schema
        self._status_schema = rules.schema.properties.get("status")
        self._has_lists = has_list_types(rules.schema)
        self._has_embedded = has_embedded_resources(rules.schema)

    @property
    def has_status(self) -> bool:
        """See `kind.Strategy`."""
        return self.rules.has_status

    def decode(self, obj: Object) -> Decoded:
        """Read the metadata as ObjectMeta, drop the fields that the schema does not declare.

        Raises:
            BadRequest: a field of metadata has the wrong type.
        """
        resource = self.rules.resource
        unknown = decode_or_refuse(obj, resource.kind, resource.version)
        unknown += self.schema.prune(obj)
        if self._has_embedded:
            try:
                unknown += decode_embedded_metadata(self.schema, obj)
            except MalformedMetadata as error:
                what = f'{resource.kind} in version "{resource.version}"'
                message = f"{what} cannot be handled as a {resource.kind}: {error}"
                raise BadRequest(message, None) from error
        return Decoded(obj, tuple(unknown))

    def find_nulls(self, obj: Object) -> list[Cause]:
        """Return the nulls of an applied object that its schema does not allow."""
        causes = [violation.to_cause() for violation in find_nulls(self.schema, obj)]
        return [*causes, _RULES_SKIPPED] if causes and self.rules.expressions else causes

    def default(self, obj: Object) -> None:
        """Fill in the schema's defaults and drop nulls that it does not allow, in place."""
        self.schema.default(obj)

    def settle(self, obj: Object) -> None:
        """Change nothing: what was decoded can be stored."""

    def prepare_for_create(self, obj: Object) -> None:
        """Drop the status where it is a subresource; a default of the schema takes its place.

        Raises:
            Forbidden: the definition of this kind is being deleted.
        """
        if self.rules.is_terminating():
            raise _refuse_creation(self.rules.resource, obj)
        if self.has_status:
            obj.pop("status", None)
            if self._status_schema is not None and self._status_schema.has_default:
                # The real server answers what it reads back, and defaults whatever it reads.
                self.schema.default(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Keep the old status where it is a subresource."""
        if self.has_status:
            _keep(obj, old, "status")

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        """Keep all but the status: also labels, annotations and finalizers."""
        metadata = deepcopy(old.get("metadata") or {})
        for key in ("resourceVersion", "managedFields"):
            _keep(metadata, obj.get("metadata") or {}, key)
        status = {"status": obj["status"]} if "status" in obj else {}
        kept = {key: deepcopy(value) for key, value in old.items() if key not in _REPLACED}
        obj.clear()
        obj.update(kept, metadata=metadata, **status)

    def validate(self, obj: Object) -> list[Cause]:
        """Return what is wrong with a new object."""
        if causes := self._validate_type(obj):
            return causes
        causes = validate_object_meta(
            obj["metadata"], namespaced=self.rules.resource.namespaced, name_rule=dns_subdomain
        )
        causes += [violation.to_cause() for violation in self.schema.validate(obj)]
        causes += self._validate_parts(obj, ("spec", "status"))
        causes += [violation.to_cause() for violation in self._list_faults(obj)]
        return causes + self._evaluate(obj, None, causes)[0]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change; what was wrong before and is unchanged passes."""
        if causes := self._validate_type(obj):
            return causes
        causes = _validate_metadata(obj, old)
        violations = self.schema.validate(obj)
        if violations:
            violations = drop_unchanged(violations, self.schema, obj, old)
        causes += [violation.to_cause() for violation in violations]
        causes += self._validate_parts(obj, ("spec", "status"))
        causes += self._new_list_faults(obj, old)
        return causes + self._evaluate(obj, old, causes)[0]

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change through `/status`: only the status is looked at."""
        causes = _validate_metadata(obj, old)
        status_schema = self._status_schema
        if status_schema is not None and "status" in obj:
            violations = status_schema.validate(obj["status"])
            if violations and "status" in old:
                before = old["status"]
                violations = drop_unchanged(violations, status_schema, obj["status"], before)
            causes += [violation.to_cause("status") for violation in violations]
        if self.rules.scale is not None:
            causes += validate_scale(obj, self.rules.scale, ("status",))
        causes += self._new_list_faults(obj, old)
        return causes + self._evaluate(obj, old, causes)[0]

    def _validate_type(self, obj: Object) -> list[Cause]:
        resource = self.rules.resource
        causes = []
        if obj.get("kind") != resource.kind:
            causes.append(invalid("kind", obj.get("kind") or "", f"must be {resource.kind}"))
        if obj.get("apiVersion") != resource.api_version:
            found = obj.get("apiVersion") or ""
            causes.append(invalid("apiVersion", found, f"must be {resource.api_version}"))
        return causes

    def _validate_parts(self, obj: Object, parts: tuple[str, ...]) -> list[Cause]:
        causes: list[Cause] = []
        if self.rules.scale is not None:
            causes += validate_scale(obj, self.rules.scale, parts)
        if self._has_embedded:
            causes += validate_embedded_resources(self.schema, obj)
        return causes

    def _list_faults(self, obj: Object) -> list[Violation]:
        return validate_lists(self.schema, obj) if self._has_lists else []

    def _new_list_faults(self, obj: Object, old: Object) -> list[Cause]:
        """Return duplicates, unless the old object had some as well."""
        faults = self._list_faults(obj)
        if not faults or self._list_faults(old):
            return []
        return [violation.to_cause() for violation in faults]

    def _evaluate(
        self, obj: Object, old: Object | None, causes: list[Cause]
    ) -> tuple[list[Cause], list[str]]:
        expressions = self.rules.expressions
        if expressions is None:
            return [], []
        if any(cause.reason in _BLOCKING for cause in causes):
            return [_RULES_SKIPPED], []
        return expressions.evaluate(obj, old)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the values of the declared `selectableFields`; a missing field is empty."""
        return {
            name: _selectable_text(path.first(obj)) for name, path in self.rules.selectable.items()
        }

    def selectable_field_names(self) -> frozenset[str]:
        """Return the declared `selectableFields`, without the leading dot."""
        return frozenset(self.rules.selectable)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return the expression rules that an unchanged part of the object still breaks."""
        if old is None or self.rules.expressions is None:
            return []
        return self._evaluate(obj, old, [])[1]

    def columns(self) -> list[Column]:
        """Return the Table columns."""
        return self.rules.columns.columns()

    def cells(self, obj: Object, now: datetime) -> list[Any]:
        """Return the Table cells of an object."""
        return self.rules.columns.cells(obj, now)


def _validate_metadata(obj: Object, old: Object) -> list[Cause]:
    # The generic registry and the strategy of custom kinds both look: each cause comes twice.
    return validate_object_meta_update(obj["metadata"], old["metadata"]) * 2


_REPLACED = frozenset({"metadata", "status"})


def _keep(new: Object, old: Object, key: str) -> None:
    if key in old:
        new[key] = deepcopy(old[key])
    else:
        new.pop(key, None)


def _selectable_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _refuse_creation(resource: Resource, obj: Object) -> Forbidden:
    name = (obj.get("metadata") or {}).get("name") or ""
    return Forbidden(
        f'{resource.group_resource} "{name}" is forbidden: create not allowed while custom '
        "resource definition is terminating",
        StatusDetails(name=name, group=resource.group, kind=resource.plural),
    )
