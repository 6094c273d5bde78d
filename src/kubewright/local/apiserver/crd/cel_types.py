"""Types of CEL values, and what a schema declares of them: fields, and how large they can be."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubewright.local.apiserver.crd.cel_values import escape_name
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema

LARGEST_REQUEST = 3 * 1024 * 1024
"""Bytes of the largest request that kube-apiserver takes: what bounds a size without a limit."""

_LONGEST_TEXT = LARGEST_REQUEST - 2
_FORMATS = {
    # format: type, smallest size as JSON, largest length
    "byte": ("bytes", 2, _LONGEST_TEXT),
    "duration": ("duration", 3, 32),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 21, 32),
}
_SCALARS = {"boolean": ("bool", 4), "number": ("double", 1), "integer": ("int", 1)}
_STRING = StructuralSchema({"type": "string"})
_METADATA = StructuralSchema(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    }
)


class CelType(msgspec.Struct, frozen=True):
    """A type as the compiler sees it; `declared` holds the fields of an object."""

    name: str
    parameters: tuple[CelType, ...] = ()
    declared: DeclaredType | None = None

    def __str__(self) -> str:
        if self.name == "null_type":
            return "null"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


class DeclaredType(msgspec.Struct):
    """What a schema declares at one place.

    `max_elements` bounds the length of a text, a list or a map; `min_size` is the fewest bytes
    that a value takes as JSON.
    """

    name: str
    min_size: int
    max_elements: int = 0
    fields: Mapping[str, DeclaredType] = {}
    key: DeclaredType | None = None
    element: DeclaredType | None = None

    @property
    def type(self) -> CelType:
        """The compiler's type of such a value."""
        if self.name == "list" and self.element is not None:
            return CelType("list", (self.element.type,))
        if self.name == "map" and self.element is not None:
            return CelType("map", (CelType("string"), self.element.type))
        return CelType(self.name, (), self if self.name == "object" else None)


def declare(schema: StructuralSchema, *, is_resource: bool) -> DeclaredType | None:
    """Declare the type of a schema; None where expressions cannot see its values."""
    if schema.raw.get("x-kubernetes-int-or-string"):
        return DeclaredType("dyn", 1, _limit(schema, "maxLength", 4, _LONGEST_TEXT))
    kind = schema.raw.get("type") or ("object" if is_resource else "")
    if kind == "array":
        return _declare_list(schema)
    if kind == "object" and schema.additional is not None and not is_resource:
        return _declare_map(schema)
    if kind == "object":
        return _declare_object(schema, is_resource=is_resource)
    if kind == "string":
        return _declare_text(schema)
    if kind in _SCALARS:
        return DeclaredType(*_SCALARS[kind])
    return None


def _declare_child(schema: StructuralSchema) -> DeclaredType | None:
    return declare(schema, is_resource=schema.is_embedded_resource)


def _declare_list(schema: StructuralSchema) -> DeclaredType | None:
    element = _declare_child(schema.items) if schema.items is not None else None
    if element is None:
        return None
    most = (LARGEST_REQUEST - 2) // (element.min_size + 1)
    return DeclaredType("list", 2, _limit(schema, "maxItems", 1, most), element=element)


def _declare_map(schema: StructuralSchema) -> DeclaredType | None:
    if not isinstance(schema.raw.get("additionalProperties"), Mapping):
        return None
    element = _declare_child(schema.additional) if schema.additional is not None else None
    if element is None:
        return None
    # A key, its quotes, a colon and a comma take six bytes at least.
    most = (LARGEST_REQUEST - 2) // (element.min_size + 6)
    elements = _limit(schema, "maxProperties", 1, most)
    return DeclaredType("map", 2, elements, key=DeclaredType("string", 2), element=element)


def _declare_object(schema: StructuralSchema, *, is_resource: bool) -> DeclaredType:
    properties = dict(schema.properties)
    if is_resource:
        properties |= {"apiVersion": _STRING, "kind": _STRING, "metadata": _METADATA}
    required = set(schema.raw.get("required") or ())
    fields: dict[str, DeclaredType] = {}
    min_size = 2
    for name, child in properties.items():
        declared = _declare_child(child)
        if declared is None:
            continue
        escaped = escape_name(name)
        if escaped is not None:
            fields[escaped] = declared
        if name in required and not child.has_default:
            min_size += len(name) + declared.min_size + 4
    return DeclaredType("object", min_size, fields=fields)


def _declare_text(schema: StructuralSchema) -> DeclaredType:
    format_name = schema.raw.get("format") or ""
    if format_name in _FORMATS:
        name, min_size, longest = _FORMATS[format_name]
        if format_name == "byte":
            longest = _limit(schema, "maxLength", 1, longest)
        return DeclaredType(name, min_size, longest)
    longest = _LONGEST_TEXT
    if schema.raw.get("enum"):
        longest = max(
            (len(v.encode()) for v in schema.raw["enum"] if isinstance(v, str)), default=0
        )
    return DeclaredType("string", 2, _limit(schema, "maxLength", 4, longest))


def _limit(schema: StructuralSchema, name: str, factor: int, otherwise: int) -> int:
    """Read a limit of a schema. Characters of a text count four bytes each."""
    limit = schema.raw.get(name)
    return otherwise if limit is None else max(0, int(limit)) * factor
