"""What makes a schema structural (KEP-1979), and where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from kubewright.api.errors import Cause
from kubewright.local.apiserver.field_error import forbidden, invalid, required

Level: TypeAlias = Literal["root", "item", "field"]
Schema: TypeAlias = Mapping[str, Any]

_MISSING_TYPE: dict[Level, str] = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_INT_OR_STRING, _PRESERVE = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
# What a schema inside a junctor may not say, and how it is told.
_FORBIDDEN_INSIDE = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    _PRESERVE: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INT_OR_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
}


def validate_structure(schema: Schema, path: str) -> list[Cause]:
    """Return why a schema is not structural; the causes are sorted."""
    causes = _invariants(schema, "root", path)
    causes += _complete_junctors(schema, schema, path, path)
    return sorted(causes, key=lambda cause: f"{cause.field}: {cause.message}")


def _invariants(schema: Schema, level: Level, path: str) -> list[Cause]:
    causes: list[Cause] = []
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and not items:
        causes.append(required(f"{path}.items", "must be specified"))
    if isinstance(items, Mapping):
        causes += _invariants(items, "item", f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        causes += _invariants(child, "field", f"{path}.properties[{name}]")
    if isinstance(additional, Mapping):
        causes += _invariants(additional, "field", f"{path}.additionalProperties")
    causes += _check_extensions(schema, path)
    causes += _check_junctors(schema, path)
    causes += _check_type(schema, level, path)
    return causes + _check_resource(schema, level, path)


def _check_extensions(schema: Schema, path: str) -> list[Cause]:
    if not schema.get(_INT_OR_STRING):
        return []
    detail = f"must be false if {_INT_OR_STRING} is true"
    return [
        invalid(f"{path}.{key}", True, detail) for key in (_PRESERVE, _EMBEDDED) if schema.get(key)
    ]


def _check_type(schema: Schema, level: Level, path: str) -> list[Cause]:
    found = schema.get("type") or ""
    if schema.get(_EMBEDDED) and found != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        return [
            invalid(f"{path}.type", found, detail) if found else required(f"{path}.type", detail)
        ]
    if not found and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE):
        return [required(f"{path}.type", _MISSING_TYPE[level])]
    if level == "root" and found and found != "object":
        return [invalid(f"{path}.type", found, "must be object at the root")]
    return []


def _check_resource(schema: Schema, level: Level, path: str) -> list[Cause]:
    """Check what whole objects may say of their type and metadata."""
    embedded = bool(schema.get(_EMBEDDED))
    properties = schema.get("properties") or {}
    causes: list[Cause] = []
    if level == "root" and schema.get("additionalProperties") is not None:
        detail = "must not be used at the root"
        causes.append(forbidden(f"{path}.additionalProperties", detail))
    if embedded and schema.get("additionalProperties") is not None:
        detail = f"must not be used if {_EMBEDDED} is set"
        causes.append(forbidden(f"{path}.additionalProperties", detail))
    if level == "root" or embedded:
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                field, found = f"{path}.properties[{name}].type", properties[name].get("type") or ""
                causes.append(invalid(field, found, "must be string"))
        if "metadata" in properties:
            causes += _check_metadata(properties["metadata"], level, f"{path}.properties[metadata]")
    if embedded and not schema.get(_PRESERVE) and not properties:
        detail = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        causes.append(required(f"{path}.properties", detail))
    return causes


def _check_metadata(metadata: Schema, level: Level, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if metadata.get("type") != "object":
        causes.append(invalid(f"{path}.type", metadata.get("type") or "", "must be object"))
    said = {key for key, value in metadata.items() if value} - {"type", "default"}
    properties = set(metadata.get("properties") or ())
    if level == "root" and (said - {"properties"} or properties - {"name", "generateName"}):
        detail = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        causes.append(forbidden(path, detail))
    return causes


def _check_junctors(schema: Schema, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("allOf", "anyOf", "oneOf"):
        for index, branch in enumerate(schema.get(key) or ()):
            if _is_type_choice(schema, branch, key, index):
                continue
            causes += _check_inside(branch, f"{path}.{key}[{index}]")
    if isinstance(schema.get("not"), Mapping):
        causes += _check_inside(schema["not"], f"{path}.not")
    return causes


def _is_type_choice(schema: Schema, branch: Schema, key: str, index: int) -> bool:
    """Tell whether a branch is part of `anyOf: [integer, string]`, in the two places allowed."""
    if key == "anyOf":
        return [dict(part) for part in schema["anyOf"]] == _TYPE_CHOICE
    return key == "allOf" and index == 0 and branch.get("anyOf") == _TYPE_CHOICE


_TYPE_CHOICE = [{"type": "integer"}, {"type": "string"}]


def _check_inside(branch: Schema, path: str) -> list[Cause]:
    causes = _check_junctors(branch, path)
    if isinstance(branch.get("items"), Mapping):
        causes += _check_inside(branch["items"], f"{path}.items")
    properties = branch.get("properties") or {}
    for name, child in properties.items():
        causes += _check_inside(child, f"{path}.properties[{name}]")
    causes += [
        forbidden(f"{path}.{key}", detail)
        for key, detail in _FORBIDDEN_INSIDE.items()
        if branch.get(key) not in (None, False, "", [])
    ]
    if "metadata" in properties:
        detail = "must not be specified in a nested context"
        causes.append(forbidden(f"{path}.properties[metadata]", detail))
    return causes


def _complete_junctors(
    rules: Schema, schema: Schema | None, path: str, rules_path: str
) -> list[Cause]:
    """Check that what the junctors at the root speak of is declared outside of them.

    Those further down are not looked at, as the real server does not.
    """
    causes: list[Cause] = []
    for key in ("allOf", "anyOf", "oneOf"):
        for index, branch in enumerate(rules.get(key) or ()):
            causes += _complete(branch, schema, path, f"{rules_path}.{key}[{index}]")
    if isinstance(rules.get("not"), Mapping):
        causes += _complete(rules["not"], schema, path, f"{rules_path}.not")
    return causes


def _complete(branch: Schema, schema: Schema | None, path: str, rules_path: str) -> list[Cause]:
    if schema is None:
        return [required(path, f"because it is defined in {rules_path}")]
    causes = _complete_junctors(branch, schema, path, rules_path)
    if isinstance(branch.get("items"), Mapping):
        items = schema.get("items")
        causes += _complete(
            branch["items"],
            items if isinstance(items, Mapping) else None,
            f"{path}.items",
            f"{rules_path}.items",
        )
    declared = schema.get("properties") or {}
    for name, child in (branch.get("properties") or {}).items():
        where, rules_where = f"{path}.properties[{name}]", f"{rules_path}.properties[{name}]"
        causes += _complete(child, declared.get(name), where, rules_where)
    return causes
