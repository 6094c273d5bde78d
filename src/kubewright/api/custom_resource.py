"""Custom resources as typed Python classes, and their CustomResourceDefinitions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

import msgspec
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel

from kubewright.api.errors import DecodeError, SchemaError
from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.api.rule import Rule, build_rules
from kubewright.api.structural_schema import PRESERVE, build_structural_schema

ready = '.status.conditions[?(@.type=="Ready")].status'
"""The path of the Ready condition's status, for a printer column."""


_CONDITION_SCHEMA: Object = {
    "type": "object",
    "description": "One aspect of the state of the object (metav1.Condition).",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    },
}

Conditions: TypeAlias = Annotated[
    list[Object],
    WithJsonSchema(
        {
            "type": "array",
            "items": _CONDITION_SCHEMA,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    ),
]
"""Conditions as they stand in the object, with the schema of `metav1.Condition`."""


class Model(BaseModel):
    """A pydantic model whose fields are in camel case in the object, as the API conventions ask.

    For a spec and its parts: `backup_size` is `backupSize` in the object. A plain `BaseModel` keeps
    the names as they are.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Status(Model):
    """The status that every custom resource of Kubewright has: subclass it to add fields.

    The runtime sets `observed_generation` and the conditions.
    """

    observed_generation: int | None = Field(
        default=None, description="The generation of the spec that this status describes."
    )
    conditions: Conditions | None = Field(
        default=None, description="What is known of the object: Ready, Reconciling, Stalled."
    )


class Scale(msgspec.Struct, frozen=True):
    """Where `kubectl scale` and autoscalers find the replicas: dotted paths into the object.

    `spec` leads to the wanted number, `status` to the present one, and `selector` to the text that
    selects the pods, which autoscalers need; None where the status has no such field.
    """

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str | None = "status.selector"


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; without a type, that of the schema at `path` is taken.

    `name` is its head, `path` leads to the field with dots, and `ready` stands for the condition. A
    `priority` above 0 shows the column with `-o wide` only; `description` says what it holds.
    """

    name: str
    path: str
    type: Literal["integer", "number", "string", "boolean", "date", ""] = ""
    priority: int = 0
    description: str = ""


SpecT = TypeVar("SpecT", bound=BaseModel)
StatusT = TypeVar("StatusT", bound=Status)


class _Parts(msgspec.Struct, rename="camel"):
    """A custom object, split: only the metadata is decoded here."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_decode_parts = msgspec.json.Decoder(_Parts).decode


class CustomResource(Generic[SpecT, StatusT]):
    """A custom resource: subclass it with a spec model, a status model and the names.

        class Memcached(CustomResource[MemcachedSpec, MemcachedStatus],
                        group="cache.example.com", version="v1alpha1"):
            \"\"\"A pool of memcached servers.\"\"\"

    The docstring becomes the schema's description. Building the class builds the structural schema:
    a model that has none fails here, at import, with the field's path.

    An instance has `metadata`, `spec` and `status`; without a status it has that of the model's
    defaults. Fields that the models do not know are kept by the API server, not by the instance.

    Class arguments:
        group, version: where the kind is served.
        kind, plural, singular: default to the class name and what follows from it.
        short_names, categories: further names for kubectl.
        namespaced: False for kinds that belong to the whole cluster.
        scale: serves `/scale`.
        columns: printer columns; the age is always the last.
        rules: what the whole object must keep; of its metadata, CEL sees name and generateName.
        storage: False for the versions of a kind that are not the stored one.
        served: False for a version that is only read from storage.
        deprecated: what a client is warned of that still uses this version.

    Raises:
        SchemaError: the models have no structural schema, or a path names no field.
    """

    resource: ClassVar[Resource]
    _definition: ClassVar[Object]
    _spec: ClassVar[TypeAdapter[Any]]
    _status: ClassVar[TypeAdapter[Any]]

    __slots__ = ("metadata", "spec", "status")

    def __init__(self, *, metadata: ObjectMeta, spec: SpecT, status: StatusT | None = None) -> None:
        self.metadata = metadata
        self.spec = spec
        self.status: StatusT = status if status is not None else self._status.validate_python({})

    def __init_subclass__(
        cls,
        *,
        group: str = "",
        version: str = "",
        kind: str = "",
        plural: str = "",
        singular: str = "",
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        namespaced: bool = True,
        scale: Scale | None = None,
        columns: Sequence[Column] = (),
        rules: Sequence[Rule] = (),
        storage: bool = True,
        served: bool = True,
        deprecated: str = "",
    ) -> None:
        super().__init_subclass__()
        if not group or not version:
            raise SchemaError(f"{cls.__name__}: give the class a group and a version")
        kind = kind or cls.__name__
        cls.resource = Resource(group, version, kind, plural or pluralize(kind), namespaced)
        spec, status = _models_of(cls)
        cls._spec, cls._status = TypeAdapter(spec), TypeAdapter(status)
        names: Object = {
            "plural": cls.resource.plural,
            "singular": singular or kind.lower(),
            "kind": kind,
            "listKind": f"{kind}List",
        }
        names |= {"shortNames": list(short_names)} if short_names else {}
        names |= {"categories": list(categories)} if categories else {}
        schema = _build_object_schema(cls.__doc__, spec, status)
        if rules:
            schema |= build_rules(*rules)
        cls._definition = _build_definition(cls.resource, names, schema, scale, columns)
        cls._definition["spec"]["versions"][0] |= _build_stage(storage, served, deprecated)

    @classmethod
    def crd(cls) -> Object:
        """Return the CustomResourceDefinition, a fresh copy."""
        copy: Object = msgspec.json.decode(msgspec.json.encode(cls._definition))
        return copy

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Build the object from its JSON text.

        Raises:
            DecodeError: the text does not fit the models; the message names each field.
        """
        try:
            parts = _decode_parts(raw)
            return cls(
                metadata=parts.metadata,
                spec=cls._spec.validate_json(bytes(parts.spec)),
                status=cls._status.validate_json(bytes(parts.status)),
            )
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'object'}: {fault['msg']}"
                for fault in error.errors(include_url=False)
            )
            raise DecodeError(f"{cls.resource.kind}: {faults}") from error
        except msgspec.MsgspecError as error:
            raise DecodeError(f"{cls.resource.kind}: {error}") from error

    def to_object(self) -> Object:
        """Return the Kubernetes object; fields that are None are left out."""
        metadata: Object = msgspec.to_builtins(self.metadata)
        obj: Object = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": metadata,
            "spec": self._dump(self.spec),
        }
        if status := self._dump(self.status):
            obj["status"] = status
        return obj

    @staticmethod
    def _dump(model: BaseModel) -> Object:
        return model.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def key(self) -> NamespacedName:
        """The key of this object among those of its kind."""
        return self.metadata.key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.key)!r}, spec={self.spec!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_object() == self.to_object()

    __hash__ = None  # type: ignore[assignment]  # equal by value and mutable, as pydantic's models


def pluralize(kind: str) -> str:
    """Return the plural of a kind as Kubernetes' own tools derive it: English rules."""
    name = kind.lower()
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return name + "es"
    if re.search(r"[^aeiou]y$", name):
        return name[:-1] + "ies"
    return name + "s"


def _models_of(cls: type) -> tuple[type[BaseModel], type[Status]]:
    for base in getattr(cls, "__orig_bases__", ()):
        if get_origin(base) is CustomResource:
            spec, status = get_args(base)
            return spec, status
    raise SchemaError(f"{cls.__name__}: derive it from CustomResource[SpecModel, StatusModel]")


def _build_object_schema(
    description: str | None, spec: type[BaseModel], status: type[Status]
) -> Object:
    parts = {
        "spec": build_structural_schema(spec.model_json_schema(by_alias=True), "spec"),
        "status": build_structural_schema(status.model_json_schema(by_alias=True), "status"),
    }
    # A spec in which nothing is required may be left out; its defaults still apply.
    if not parts["spec"].get("required"):
        parts["spec"]["default"] = {}
    # A status is what we say, not what a user must: a half-written one is still an object.
    parts["status"].pop("required", None)
    schema: Object = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **parts,
        },
    }
    if description:
        schema["description"] = " ".join(description.split())
    if parts["spec"].get("required"):
        schema["required"] = ["spec"]
    return schema


def _build_definition(
    resource: Resource,
    names: Object,
    schema: Object,
    scale: Scale | None,
    columns: Sequence[Column],
) -> Object:
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            *(_build_column(column, schema) for column in columns),
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    if scale is not None:
        version["subresources"]["scale"] = _build_scale(scale, schema)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _build_stage(storage: bool, served: bool, deprecated: str) -> Object:
    """Build what a version says of its place among the versions of its kind."""
    stage: Object = {"served": served, "storage": storage}
    if deprecated:
        stage |= {"deprecated": True, "deprecationWarning": deprecated}
    return stage


def _build_scale(scale: Scale, schema: Object) -> Object:
    for path in (scale.spec, scale.status):
        if _field_at(schema, path).get("type") != "integer":
            raise SchemaError(f"scale: {path} is not an integer field")
    built = {"specReplicasPath": f".{scale.spec}", "statusReplicasPath": f".{scale.status}"}
    if scale.selector is not None:
        if _field_at(schema, scale.selector).get("type") != "string":
            raise SchemaError(
                f"scale: {scale.selector} is not a string field: give the status one that holds "
                "the label selector of the pods, or pass selector=None"
            )
        built["labelSelectorPath"] = f".{scale.selector}"
    return built


def _build_column(column: Column, schema: Object) -> Object:
    path = column.path if column.path.startswith(".") else f".{column.path}"
    kind = column.type
    if not kind:
        field = {} if "[" in path else _field_at(schema, path.lstrip("."))
        kind = "date" if field.get("format") == "date-time" else field.get("type", "string")
    if kind in ("array", "object"):
        raise SchemaError(f"column {column.name}: {path} is an {kind}, which has no cell")
    built: Object = {"name": column.name, "type": kind, "jsonPath": path}
    built |= {"priority": column.priority} if column.priority else {}
    built |= {"description": column.description} if column.description else {}
    return built


def _field_at(schema: Object, path: str) -> Object:
    """Return the schema of the field at a dotted path; metadata is known to every object."""
    node = schema
    for part in path.split("."):
        if node.get(PRESERVE) or (node is not schema and path.startswith("metadata.")):
            return {}
        properties = node.get("properties", {})
        if part not in properties:
            raise SchemaError(f"{path}: there is no field {part!r}; known: {sorted(properties)}")
        node = properties[part]
    return node
