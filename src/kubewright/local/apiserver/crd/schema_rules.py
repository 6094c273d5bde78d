"""Rules of `openAPIV3Schema` in definitions: what is supported, and what makes it structural.

Structural (KEP-1979) means: every value's type is known from the schema alone, outside of the
logical junctors. Only then can the server prune and default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.local.apiserver.crd.default_rules import validate_defaults
from kubewright.local.apiserver.crd.expression_rules import validate_expressions
from kubewright.local.apiserver.crd.list_rules import validate_list_types
from kubewright.local.apiserver.crd.pattern import compile_pattern
from kubewright.local.apiserver.crd.structural_rules import validate_structure
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required

_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
# With a status subresource, status is validated by itself: junctors at the root would not see it.
_AT_ROOT = (
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
)
_GO_NAMES = {
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


def validate_schema(schema: Mapping[str, Any], path: str, *, has_status: bool) -> list[Cause]:
    """Return what is wrong with the schema of a version.

    Args:
        schema: the JSONSchemaProps at the root.
        path: how messages name its place.
        has_status: a version of the definition has the status subresource.
    """
    causes = _validate_root(schema, path) if has_status else []
    if schema.get("nullable"):
        causes.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    causes += _validate_node(schema, path)
    structural = validate_structure(schema, path)
    causes += structural
    if not structural:
        causes += validate_defaults(schema, path)
    if not causes:
        causes += validate_expressions(schema, path)
    return causes


def _validate_root(schema: Mapping[str, Any], path: str) -> list[Cause]:
    if schema.get("type") not in (None, "", "object"):
        detail = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        return [invalid(f"{path}.type", schema["type"], detail)]
    for key, value in schema.items():
        name = _GO_NAMES.get(key) or key[0].upper() + key[1:]
        if value not in (None, False, 0, "", [], {}) and name not in _AT_ROOT:
            detail = (
                f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema if the "
                "status subresource is enabled"
            )
            return [invalid(path, dict(schema), detail)]
    return []


def _validate_node(
    schema: Mapping[str, Any], path: str, *, in_metadata: bool = False
) -> list[Cause]:
    """Check one node and all below it; `in_metadata` tells that it is part of object metadata."""
    causes = _validate_supported(schema, path)
    embedded = "x-kubernetes-embedded-resource"
    if in_metadata and schema.get(embedded):
        detail = "must not be used inside of resource meta"
        causes.append(forbidden(f"{path}.{embedded}", detail))
    causes += _validate_additional(schema, path)
    causes += _validate_extensions(schema, path)
    causes += validate_list_types(schema, path)
    metadata = f"{path}.properties[metadata]" if schema.get(embedded) else None
    for child_path, child in children(schema, path):
        inside = in_metadata or child_path == metadata
        causes += _validate_node(child, child_path, in_metadata=inside)
    return causes


def children(schema: Mapping[str, Any], path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return all schemas directly inside one, with their paths."""
    found: list[tuple[str, Any]] = [
        (f"{path}.{key}", schema.get(key)) for key in ("additionalProperties", "items", "not")
    ]
    found += [
        (f"{path}.properties[{name}]", child)
        for name, child in (schema.get("properties") or {}).items()
    ]
    for key in ("allOf", "anyOf", "oneOf"):
        found += [
            (f"{path}.{key}[{index}]", branch) for index, branch in enumerate(schema.get(key) or ())
        ]
    return [(where, child) for where, child in found if isinstance(child, Mapping)]


def _validate_supported(schema: Mapping[str, Any], path: str) -> list[Cause]:
    causes = [
        forbidden(f"{path}.{key}", f"{key} is not supported")
        for key in _UNSUPPORTED
        if schema.get(key)
    ]
    if schema.get("type") and schema["type"] not in _TYPES:
        causes.append(not_supported(f"{path}.type", schema["type"], _TYPES))
    if schema.get("type") == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        causes.append(forbidden(f"{path}.type", detail))
    if isinstance(schema.get("items"), list):
        detail = "items must be a schema object and not an array"
        causes.append(forbidden(f"{path}.items", detail))
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{path}.uniqueItems", detail))
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            causes.append(invalid(f"{path}.pattern", pattern, detail))
    return causes


def _validate_additional(schema: Mapping[str, Any], path: str) -> list[Cause]:
    additional = schema.get("additionalProperties")
    if additional in (None, True) or not schema.get("properties"):
        return []
    detail = "additionalProperties and properties are mutual exclusive"
    return [forbidden(f"{path}.additionalProperties", detail)]


def _validate_extensions(schema: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    preserve = "x-kubernetes-preserve-unknown-fields"
    if schema.get(preserve) is False:
        causes.append(invalid(f"{path}.{preserve}", False, "must be true or undefined"))
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return causes
    if schema.get("type") != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        causes.append(wrong_type(schema, path, detail))
    if map_type not in ("atomic", "granular"):
        field = f"{path}.x-kubernetes-map-type"
        causes.append(not_supported(field, map_type, ("atomic", "granular")))
    return causes


def wrong_type(schema: Mapping[str, Any], path: str, detail: str) -> Cause:
    """Say that a node must have another type, or any."""
    found = schema.get("type")
    return invalid(f"{path}.type", found, detail) if found else required(f"{path}.type", detail)
