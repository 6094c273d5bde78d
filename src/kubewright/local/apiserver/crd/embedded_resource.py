"""Objects inside custom objects: `x-kubernetes-embedded-resource`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.crd.object_metadata import (
    MalformedMetadata,
    decode_object_metadata,
)
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.violation import ROOT, Path, format_path
from kubewright.local.apiserver.field_error import invalid, required
from kubewright.local.apiserver.objectmeta import path_segment, validate_object_meta


def has_embedded_resources(schema: StructuralSchema) -> bool:
    """Tell whether any place of the schema holds a whole object."""
    children = [*schema.properties.values(), schema.additional, schema.items]
    return schema.is_embedded_resource or any(
        has_embedded_resources(child) for child in children if child is not None
    )


def decode_embedded_metadata(schema: StructuralSchema, obj: Object) -> list[str]:
    """Drop unknown fields of the metadata of embedded objects, in place; return their paths.

    Raises:
        MalformedMetadata: a field of such metadata has the wrong type.
    """
    unknown: list[str] = []
    for path, embedded in _find(schema, obj, ROOT):
        unknown += decode_object_metadata(embedded, f"{format_path(path)}.metadata")
    return unknown


def validate_embedded_resources(
    schema: StructuralSchema, value: Any, base: str = ""
) -> list[Cause]:
    """Return what is wrong with type and metadata of the objects embedded in a value.

    `base` is the field that the value stands in.
    """
    causes: list[Cause] = []
    for path, embedded in _find(schema, value, ROOT):
        causes += _validate(embedded, format_path(path, base))
    return causes


def _find(
    schema: StructuralSchema, value: Any, path: Path
) -> Iterator[tuple[Path, dict[str, Any]]]:
    if type(value) is dict:
        if schema.is_embedded_resource:
            yield path, value
        for key, item in value.items():
            child = schema.child(key)
            if child is not None:
                yield from _find(child, item, (path, key))
    elif type(value) is list and schema.items is not None:
        for index, item in enumerate(value):
            yield from _find(schema.items, item, (path, index))


def _validate(embedded: dict[str, Any], field: str) -> list[Cause]:
    causes = _validate_type(embedded, field)
    metadata = embedded.get("metadata")
    if metadata is None:
        return causes
    try:
        decode_object_metadata({"metadata": metadata})
    except MalformedMetadata as error:
        return [*causes, invalid(f"{field}.metadata", metadata, str(error))]
    # Templates leave the name out, which is no fault here.
    named = metadata if metadata.get("name") else {**metadata, "name": "fakename"}
    return causes + validate_object_meta(
        named,
        namespaced=bool(metadata.get("namespace")),
        name_rule=path_segment,
        field=f"{field}.metadata",
    )


def _validate_type(embedded: dict[str, Any], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("apiVersion", "kind"):
        value = embedded.get(key)
        if value is None:
            causes.append(required(f"{field}.{key}"))
        elif value == "":
            causes.append(invalid(f"{field}.{key}", value, "must not be empty"))
        elif key == "apiVersion" and isinstance(value, str) and value.count("/") > 1:
            detail = f"unexpected GroupVersion string: {value}"
            causes.append(invalid(f"{field}.{key}", value, detail))
    return causes
