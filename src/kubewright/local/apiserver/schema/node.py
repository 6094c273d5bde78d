"""One compiled view of an OpenAPI schema, for apply, patches and strict decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

Kind: TypeAlias = Literal["scalar", "object", "array", "untyped"]
Scalar: TypeAlias = Literal["numeric", "string", "boolean", "any"]
Resolve: TypeAlias = Callable[[str], Mapping[str, Any]]

_SCALARS: dict[str, Scalar] = {
    "integer": "numeric",
    "number": "numeric",
    "string": "string",
    "boolean": "boolean",
}
# Siblings of a $ref that change nothing about the type referred to.
_SILENT = frozenset({"$ref", "allOf", "description", "title", "example", "externalDocs"})
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class SchemaNode:
    """The schema of one value; its children are compiled when they are first asked for.

    Nodes are shared and read only. `kind` decides which of the others matter:

    - `object`: `fields` are the declared ones; `values` is the schema of all others, or None where
      others are not allowed. `map_type` tells whether apply descends into it.
    - `array`: `items`, `list_type`, and `list_map_keys` where the list type is `map`.
    - `scalar`: `scalar` tells which.
    - `untyped`: anything; maps are granular, lists atomic.

    `name` is the definition that the schema was referred to by, `type` and `format` are as written.
    """

    __slots__ = (
        "_source",
        "default",
        "embedded",
        "fields",
        "format",
        "int_or_string",
        "items",
        "kind",
        "list_map_keys",
        "list_type",
        "map_type",
        "name",
        "nullable",
        "patch_merge_key",
        "patch_strategy",
        "preserve_unknown",
        "required",
        "scalar",
        "type",
        "values",
    )

    _source: tuple[Mapping[str, Any], _Compiler, bool, str] | None
    default: Any
    embedded: bool
    fields: Mapping[str, SchemaNode]
    format: str
    int_or_string: bool
    items: SchemaNode
    kind: Kind
    list_map_keys: tuple[str, ...]
    list_type: Literal["atomic", "set", "map"]
    map_type: Literal["granular", "atomic"]
    name: str
    nullable: bool
    patch_merge_key: str
    patch_strategy: frozenset[str]
    preserve_unknown: bool
    required: frozenset[str]
    scalar: Scalar
    type: str
    values: SchemaNode | None

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> Any:
            # Reached only while a slot is empty: the node has not been compiled yet.
            source = None if attribute == "_source" else self._source
            if source is None:
                raise AttributeError(attribute)
            self._source = None
            schema, compiler, preserve, name = source
            compiler.fill(self, schema, preserve, name)
            return getattr(self, attribute)

    def __repr__(self) -> str:
        return f"SchemaNode({self.name or self.type or self.kind})"


def compile_schema(schema: Mapping[str, Any], resolve: Resolve) -> SchemaNode:
    """Compile an OpenAPI v3 schema.

    Args:
        schema: the schema; `x-kubernetes-*` extensions are read, descriptions are not.
        resolve: gives the schema that a `$ref` names; it is asked once for each name, with the
            last segment of the reference, when a value of that type is first looked at.
    """
    return _Compiler(resolve).node(schema)


class _Compiler:
    """Turns schemas into nodes; one node for each definition, however often it is referred to."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._definitions: dict[str, SchemaNode] = {}

    def node(self, schema: Mapping[str, Any], preserve: bool = False) -> SchemaNode:
        """Return the node of a schema, not yet compiled; `preserve` is inherited from above."""
        name = _reference(schema)
        if name and _SILENT.issuperset(schema):
            return self.definition(name)
        return self._lazy(schema, preserve, "")

    def definition(self, name: str) -> SchemaNode:
        """Return the node of a definition."""
        node = self._definitions.get(name)
        if node is None:
            node = self._definitions[name] = self._lazy({}, False, name)
        return node

    def _lazy(self, schema: Mapping[str, Any], preserve: bool, name: str) -> SchemaNode:
        node = SchemaNode()
        node._source = (schema, self, preserve, name)
        return node

    def fill(self, node: SchemaNode, schema: Mapping[str, Any], preserve: bool, name: str) -> None:
        """Compile a node in place."""
        if name:
            schema = self._resolve(name)
        target = _reference(schema)
        if target:
            _copy(self.definition(target), node)
            _read_extensions(node, schema)
        else:
            self._fill_inline(node, schema, preserve)
        if name == _QUANTITY:
            node.kind, node.scalar = "scalar", "any"
        elif name == _RAW_EXTENSION:
            # What someone else defines is one value to those who own fields.
            _copy(DEDUCED, node)
            node.kind, node.values, node.map_type = "object", DEDUCED, "atomic"
        if name:
            node.name = name

    def _fill_inline(self, node: SchemaNode, schema: Mapping[str, Any], preserve: bool) -> None:
        _copy(DEDUCED, node)
        node.preserve_unknown = False
        node.type = _type(schema)
        node.format = schema.get("format") or ""
        _read_extensions(node, schema)
        preserve = preserve or node.preserve_unknown
        scalar = _SCALARS.get(node.type)
        if schema.get("x-kubernetes-int-or-string") and not node.type:
            # The published schema names no type, so an apply takes whatever comes.
            return
        if node.int_or_string or (not node.type and _scalar_choice(schema)):
            node.kind, node.scalar = "scalar", "any"
        elif scalar:
            node.kind, node.scalar = "scalar", scalar
        elif node.type == "array":
            node.kind = "array"
            items = schema.get("items")
            node.items = self.node(items, preserve) if items is not None else DEDUCED
        elif node.type == "object" or "properties" in schema or "additionalProperties" in schema:
            self._fill_object(node, schema, preserve)

    def _fill_object(self, node: SchemaNode, schema: Mapping[str, Any], preserve: bool) -> None:
        node.kind = "object"
        properties = schema.get("properties") or {}
        node.fields = {name: self.node(part, preserve) for name, part in properties.items()}
        node.required = frozenset(schema.get("required") or ())
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):
            node.values = self.node(others, preserve)
        elif others is None:
            # An object that declares nothing is free-form; one that does is closed.
            node.values = DEDUCED if preserve or not properties else None
        else:
            node.values = DEDUCED if others else None
        if node.embedded:
            node.fields = {**_embedded_fields(), **node.fields}


def _reference(schema: Mapping[str, Any]) -> str:
    ref = schema.get("$ref")
    if ref is None:
        parts = schema.get("allOf")
        if not (isinstance(parts, list) and len(parts) == 1 and "$ref" in parts[0]):
            return ""
        ref = parts[0]["$ref"]
    return str(ref).rpartition("/")[2]


def _type(schema: Mapping[str, Any]) -> str:
    declared = schema.get("type") or ""
    if isinstance(declared, list):
        declared = next((part for part in declared if part != "null"), "")
    return str(declared)


def _scalar_choice(schema: Mapping[str, Any]) -> bool:
    parts = schema.get("oneOf") or schema.get("anyOf") or ()
    return bool(parts) and all(_type(part) in _SCALARS for part in parts)


def _read_extensions(node: SchemaNode, schema: Mapping[str, Any]) -> None:
    get = schema.get
    if "default" in schema:
        node.default = get("default")
    if "nullable" in schema:
        node.nullable = bool(get("nullable"))
    node.list_type = get("x-kubernetes-list-type", node.list_type)
    node.list_map_keys = tuple(get("x-kubernetes-list-map-keys", node.list_map_keys))
    node.map_type = get("x-kubernetes-map-type", node.map_type)
    node.patch_merge_key = get("x-kubernetes-patch-merge-key", node.patch_merge_key)
    strategy = get("x-kubernetes-patch-strategy")
    if strategy is not None:
        node.patch_strategy = frozenset(filter(None, strategy.split(",")))
    if "x-kubernetes-preserve-unknown-fields" in schema:
        node.preserve_unknown = bool(get("x-kubernetes-preserve-unknown-fields"))
    if get("x-kubernetes-int-or-string") or get("format") == "int-or-string":
        node.int_or_string = True
    if "x-kubernetes-embedded-resource" in schema:
        node.embedded = bool(get("x-kubernetes-embedded-resource"))


def _embedded_fields() -> dict[str, SchemaNode]:
    text = compile_schema({"type": "string"}, _no_definitions)
    return {"apiVersion": text, "kind": text, "metadata": DEDUCED}


def _no_definitions(name: str) -> Mapping[str, Any]:
    raise KeyError(name)


def _copy(source: SchemaNode, target: SchemaNode) -> None:
    for slot in SchemaNode.__slots__:
        if slot != "_source":
            setattr(target, slot, getattr(source, slot))


def _build_deduced() -> SchemaNode:
    node = SchemaNode()
    node._source = None
    node.default = None
    node.embedded = False
    node.fields = {}
    node.format = ""
    node.int_or_string = False
    node.items = node
    node.kind = "untyped"
    node.list_map_keys = ()
    node.list_type = "atomic"
    node.map_type = "granular"
    node.name = ""
    node.nullable = False
    node.patch_merge_key = ""
    node.patch_strategy = frozenset()
    node.preserve_unknown = True
    node.required = frozenset()
    node.scalar = "any"
    node.type = ""
    node.values = node
    return node


DEDUCED = _build_deduced()
"""The schema of values that have none: maps are granular, lists atomic."""
