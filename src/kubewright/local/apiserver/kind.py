"""What the REST layer must know of one kind in one version.

Built-in kinds and custom kinds come in the same shape, so that verbs, watches, tables, patches and
apply are written once. `builtin` and `crd` build `ServedKind`; `rest` uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kubewright.api.errors import Cause
from kubewright.api.resource import Object, Resource

if TYPE_CHECKING:
    from kubewright.local.apiserver.conversion import VersionConverter
    from kubewright.local.apiserver.schema.node import SchemaNode


class Column(msgspec.Struct, frozen=True):
    """One column of a Table; `priority` above 0 shows it only with `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Decoded(msgspec.Struct, frozen=True):
    """An object as read from a request body.

    `unknown` lists the paths of fields that the schema does not declare (they are gone from `obj`):
    fieldValidation decides whether they are an error, a warning or nothing.
    """

    obj: Object
    unknown: tuple[str, ...] = ()


class Strategy(Protocol):
    """The rules of one kind: the generic registry's RESTCreateStrategy and RESTUpdateStrategy."""

    @property
    def has_generation(self) -> bool:
        """Tell whether the server keeps `metadata.generation`."""
        ...

    @property
    def has_status(self) -> bool:
        """Tell whether `/status` is a subresource: main writes keep it, status writes the rest."""
        ...

    @property
    def allow_create_on_update(self) -> bool:
        """Tell whether PUT of a missing object creates it."""
        ...

    @property
    def allow_unconditional_update(self) -> bool:
        """Tell whether PUT may leave out `metadata.resourceVersion`."""
        ...

    def decode(self, obj: Object) -> Decoded:
        """Check types, drop unknown fields.

        Raises:
            BadRequest: a field has a type that the kind cannot decode.
        """
        ...

    def default(self, obj: Object) -> None:
        """Fill in defaults, in place."""
        ...

    def settle(self, obj: Object) -> None:
        """Make a decoded object one that can be stored: an empty list may not outlive a write."""
        ...

    def prepare_for_create(self, obj: Object) -> None:
        """Drop what a client may not set at creation, fill in what the server assigns."""
        ...

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Keep of the old object what a client may not change."""
        ...

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        """Keep of the old object all that a status write may not change."""
        ...

    def validate(self, obj: Object) -> list[Cause]:
        """Return what is wrong with a new object."""
        ...

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change: the object's rules, and immutable fields."""
        ...

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with a change through `/status`."""
        ...

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the values for field selectors, beyond metadata.name and metadata.namespace."""
        ...

    def selectable_field_names(self) -> frozenset[str]:
        """Return the labels that a field selector may name, beyond metadata.name and .namespace."""
        ...

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return the texts of Warning headers for a write."""
        ...

    def columns(self) -> list[Column]:
        """Return the Table columns."""
        ...

    def cells(self, obj: Object, now: datetime) -> list[Any]:
        """Return the Table cells of an object, one for each column."""
        ...


class ScaleMapping(msgspec.Struct, frozen=True):
    """How `/scale` (autoscaling/v1 Scale) maps to fields of the object, as dotted paths."""

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    selector_path: str | None = ".status.selector"


class ServedKind(msgspec.Struct, frozen=True):
    """One version of one resource, as the API server serves it.

    `subresources` names those served beside `status` and `scale`, such as `binding`, `log`.
    `storage` is the resource of the version that is stored: kinds that share storage share it.
    `openapi` is the published OpenAPI v3 schema; `definition` its name in the published document,
    such as `io.k8s.api.apps.v1.Deployment`.
    """

    resource: Resource
    singular: str
    list_kind: str
    strategy: Strategy
    schema: SchemaNode
    openapi: Object
    definition: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = (
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    )
    subresources: frozenset[str] = frozenset()
    scale: ScaleMapping | None = None
    is_custom: bool = False
    storage: Resource | None = None
    # Turns a stored object of another version into this one's; None where the versions are equal
    # but for their apiVersion.
    convert: Callable[[Object], Object] | None = None
    # Converts in its place where the definition names a webhook, for which requests must wait.
    webhook: VersionConverter | None = None
    deprecation_warning: str | None = None
    # Paths that a main or a status write may not own in managedFields, by subresource ("" = main).
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {}

    @property
    def stored_as(self) -> Resource:
        """The resource under whose prefix the objects are stored."""
        return self.storage or self.resource
