"""The strategy of CustomResourceDefinition itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kubewright.api.conditions import is_condition_true
from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.crd.definition import default_definition, set_stored_version
from kubewright.local.apiserver.kind import Column, Decoded, ServedKind, Strategy
from kubewright.local.apiserver.lazy_module import lazy_module

# The strategy exists from the start; its rules are needed with the first definition.
if TYPE_CHECKING:
    from kubewright.local.apiserver.crd import definition_validation, formats, schema_rules
else:
    definition_validation = lazy_module("kubewright.local.apiserver.crd.definition_validation")
    formats = lazy_module("kubewright.local.apiserver.crd.formats")
    schema_rules = lazy_module("kubewright.local.apiserver.crd.schema_rules")

_CREATED_AT = Column(
    "Created At",
    "date",
    description=(
        "CreationTimestamp is a timestamp representing the server time when this object was "
        "created. It is not guaranteed to be set in happens-before order across separate "
        "operations. Clients may not set this value. It is represented in RFC3339 form and is in "
        "UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
        "#metadata"
    ),
)


_SCOPE = Column("Scope", description="Cluster/Namespaced")
_VERSIONS = Column("Versions", description="Served versions")
_WIDE = (
    Column("Group", description="API group", priority=1),
    Column("Kind", description="CustomResource kind", priority=1),
    Column("ShortNames", description="Short names", priority=1),
    Column("Established", "boolean", description="Established status", priority=1),
)


def definition_kind(builtin: ServedKind) -> ServedKind:
    """Return the built-in kind of CustomResourceDefinition with its own rules in place."""
    return replace(
        builtin,
        strategy=CRDStrategy(builtin.strategy),
        reset_fields={"": (("status",),), "status": (("metadata",), ("spec",))},
    )


class CRDStrategy:
    """The `Strategy` of CustomResourceDefinition; decoding is that of the built-in kind."""

    has_generation = True
    has_status = True
    allow_create_on_update = False
    allow_unconditional_update = False

    def __init__(self, builtin: Strategy) -> None:
        self._builtin = builtin

    def decode(self, obj: Object) -> Decoded:
        """Check types and drop unknown fields, as for any built-in kind."""
        return self._builtin.decode(obj)

    def default(self, obj: Object) -> None:
        """Fill in names and the conversion strategy, in place."""
        default_definition(obj)

    def settle(self, obj: Object) -> None:
        """Change nothing: what was decoded can be stored."""

    def prepare_for_create(self, obj: Object) -> None:
        """Start with an empty status that knows only the storage version."""
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
        set_stored_version(obj, [])

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Keep the status; a new storage version is added to it at once."""
        obj["status"] = deepcopy(old.get("status") or {})
        set_stored_version(obj, obj["status"].get("storedVersions") or [])

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        """Keep all but the status."""
        metadata = deepcopy(old["metadata"])
        for key in ("resourceVersion", "managedFields"):
            if key in obj["metadata"]:
                metadata[key] = obj["metadata"][key]
        obj["metadata"] = metadata
        obj["spec"] = deepcopy(old["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        """Return what is wrong with a new definition."""
        return definition_validation.validate_definition(obj)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change."""
        return definition_validation.validate_definition_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change through `/status`."""
        return definition_validation.validate_definition_status(obj, old)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return nothing: only name and namespace can be selected."""
        return {}

    def selectable_field_names(self) -> frozenset[str]:
        """Return nothing: only name and namespace can be selected."""
        return frozenset()

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Name what the schemas say to no effect, unless they said it before."""
        before = set(_doubts_of(old)) if old is not None else set()
        return [text for text in dict.fromkeys(_doubts_of(obj)) if text not in before]

    def columns(self) -> list[Column]:
        """Return the Table columns."""
        return [self._builtin.columns()[0], _SCOPE, _VERSIONS, _CREATED_AT, *_WIDE]

    def cells(self, obj: Object, now: datetime) -> list[Any]:
        """Return the Table cells of a definition."""
        metadata = obj["metadata"]
        spec = obj["spec"]
        names = spec.get("names") or {}
        return [
            metadata.get("name", ""),
            spec.get("scope", ""),
            ",".join(_shown_versions(spec)),
            metadata.get("creationTimestamp"),
            spec.get("group", ""),
            names.get("kind", ""),
            ",".join(names.get("shortNames") or ()),
            is_condition_true(obj, "Established"),
        ]


def _shown_versions(spec: Mapping[str, Any]) -> Iterator[str]:
    for version in spec.get("versions") or ():
        if version.get("served"):
            yield version["name"] + ("(storage)" if version.get("storage") else "")


def _doubts_of(crd: Object) -> Iterator[str]:
    for version in (crd.get("spec") or {}).get("versions") or ():
        yield from _doubts_in((version.get("schema") or {}).get("openAPIV3Schema") or {})


def _doubts_in(schema: Mapping[str, Any]) -> Iterator[str]:
    name, declared = schema.get("format"), schema.get("type") or ""
    if name and not formats.is_known_format(name, declared):
        yield f'unrecognized format "{name}"'
    items: Mapping[str, Any] = schema.get("items") or {}
    is_set = schema.get("x-kubernetes-list-type") == "set"
    if is_set and items.get("type") in ("array", "object"):
        yield (
            f'x-kubernetes-list-type: set for items of type "{items["type"]}" is not supported '
            "by server-side apply or CEL validation rules"
        )
    for _, child in schema_rules.children(schema, ""):
        yield from _doubts_in(child)
