"""The Go types behind the built-in kinds: pointers, names, numbers, what is left out when empty.

A real API server decodes a body into Go structs and writes the structs back. What a client reads is
shaped by them, and protobuf knows nothing else. The table comes from `tools/go_types.py`.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files

import msgspec

_GO_SCALARS = {"double": "float64", "byte": "uint8", "bytes": "[]uint8"}


class Shape:
    """The type of one value: a leaf, named by its code."""

    __slots__ = ("code", "go_type")

    def __init__(self, code: str, go_type: str) -> None:
        self.code = code
        self.go_type = go_type


class ListShape(Shape):
    """A slice; `wrapped` ones are messages of their own in protobuf."""

    __slots__ = ("items", "wrapped")

    def __init__(self, items: Shape, *, wrapped: bool = False) -> None:
        super().__init__("list", f"[]{items.go_type}")
        self.items = items
        self.wrapped = wrapped


class MapShape(Shape):
    """A map with text keys."""

    __slots__ = ("values",)

    def __init__(self, values: Shape) -> None:
        super().__init__("map", f"map[string]{values.go_type}")
        self.values = values


class Field(msgspec.Struct, frozen=True):
    """One field of a struct.

    `number` is the protobuf field number, 0 for none. `omit_empty` fields are not written when they
    are empty, which structs never are; `omit_zero` ones not even as structs.
    """

    name: str
    number: int
    type: str
    pointer: bool
    omit_empty: bool
    omit_zero: bool

    @property
    def shape(self) -> Shape:
        """The type of its value."""
        return shape_of(self.type)


class StructShape(Shape):
    """A struct; the fields of inlined structs are its own in JSON, and apart in protobuf."""

    __slots__ = ("always", "by_number", "definition", "fields", "inlined", "name")

    def __init__(self, definition: str) -> None:
        package, _, name = definition.rpartition(".")
        super().__init__("struct", f"{package.rpartition('.')[2]}.{name}")
        self.definition = definition
        self.name = name
        self.fields: dict[str, Field] = {}
        self.by_number: dict[int, Field] = {}
        self.inlined: dict[int, StructShape] = {}
        for raw in _table()[definition]:
            self._add(_parse(raw))
        # Those that a written struct has, whether or not they are set.
        self.always = tuple(field for field in self.fields.values() if _is_always_written(field))

    def _add(self, field: Field) -> None:
        if field.name:
            self.fields[field.name] = field
            self.by_number[field.number] = field
        else:
            inner = shape_of(field.type)
            assert isinstance(inner, StructShape)
            self.inlined[field.number] = inner
            self.fields |= inner.fields


def _parse(raw: tuple[str, int, str, str]) -> Field:
    name, number, code, flags = raw
    return Field(name, number, code, "p" in flags, "o" in flags, "z" in flags)


def _is_always_written(field: Field) -> bool:
    if field.omit_zero:
        return False
    if field.pointer or not field.omit_empty:
        return not field.omit_empty
    # Structs are never empty to Go's JSON encoder, whatever their tag says.
    return field.type.startswith("@") or field.type in _STRUCT_LEAVES


_STRUCT_LEAVES = frozenset({"time", "microtime", "quantity", "intorstring", "raw", "duration"})


@cache
def _table() -> dict[str, list[tuple[str, int, str, str]]]:
    path = files("kubewright.local.apiserver.builtin") / "data" / "types.json.gz"
    text = gzip.decompress(path.read_bytes())
    return msgspec.json.decode(text, type=dict[str, list[tuple[str, int, str, str]]])


@cache
def shape_of(code: str) -> Shape:
    """Return the shape that a code of the table stands for."""
    if code.startswith("@"):
        return struct_of(code[1:])
    head, _, rest = code.partition(" ")
    if head == "list":
        return ListShape(shape_of(rest))
    if head == "map":
        return MapShape(shape_of(rest))
    if head == "wrapped":
        return ListShape(shape_of(rest.removeprefix("list ")), wrapped=True)
    return Shape(head, rest or _GO_SCALARS.get(head, head))


@cache
def struct_of(definition: str) -> StructShape:
    """Return the struct of a definition, such as `io.k8s.api.apps.v1.Deployment`.

    Raises:
        KeyError: there is no such type.
    """
    return StructShape(definition)
