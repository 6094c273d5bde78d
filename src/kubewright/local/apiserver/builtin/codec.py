"""Decode a JSON object as Go decodes it into the kind's struct and writes it back.

Types are checked with Go's wording, fields that the struct lacks are dropped and reported, empty
fields are left out or filled in as the tags of the struct say, times and quantities are made
canonical (`encoding/json`, `sigs.k8s.io/json`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubewright.api.errors import BadRequest
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.builtin.leaves import (
    QUANTITY_FAULT,
    check_base64,
    read_micro_time,
    read_quantity,
    read_time,
)
from kubewright.local.apiserver.builtin.shapes import (
    Field,
    ListShape,
    MapShape,
    Shape,
    StructShape,
    struct_of,
)
from kubewright.local.apiserver.kind import Decoded

_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "byte": (0, 255)}
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# Lists that Go writes also when they are empty. In the store an empty one is none, but the manager
# that creates it owns it, and a refusal shows it.
KEPT_LISTS = {
    "Role": ("rules",),
    "ClusterRole": ("rules",),
    "EndpointSlice": ("endpoints", "ports"),
    "CustomResourceDefinitionSpec": ("versions",),
}
_EMPTY: tuple[Any, ...] = ("", 0, None)


_GO_KINDS = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "slice",
    dict: "map",
}
_SCALAR_KINDS = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "byte": "uint8",
    "double": "float64",
}


class WrongType(BadRequest):
    """A value has a type that the kind cannot decode.

    `conversion` is what upstream says of it where it does not decode a text but converts maps, as
    it does after a strategic merge (`runtime.DefaultUnstructuredConverter`).
    """

    def __init__(self, message: str, conversion: str) -> None:
        super().__init__(message, None)
        self.conversion = conversion


def decode(obj: Object, definition: str, gvk: GroupVersionKind) -> Decoded:
    """Decode an object of a kind; `obj` is not changed.

    Raises:
        WrongType: a value has a type that the kind cannot decode.
    """
    unknown: list[str] = []
    try:
        result = _Decoder(unknown).struct(struct_of(definition), obj, (), "")
    except _Mismatch as error:
        kind, version = gvk.kind, gvk.version
        raise WrongType(
            f'{kind} in version "{version}" cannot be handled as a {kind}: {error}',
            error.conversion or str(error),
        ) from error
    return Decoded(result, tuple(unknown))


def complete(obj: Object, definition: str) -> None:
    """Add the fields that a written object always has, such as `status: {}`; in place."""
    for field in struct_of(definition).always:
        if field.name not in obj:
            obj[field.name] = zero_of(field)


def zero_of(field: Field) -> Any:
    """Return what is written for a field that is not set."""
    return None if field.pointer else _zero(field.shape)


def _zero(shape: Shape) -> Any:
    if isinstance(shape, StructShape):
        return {field.name: zero_of(field) for field in shape.always}
    return _ZEROS.get(shape.code)


_ZEROS: dict[str, Any] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "byte": 0,
    "double": 0,
    "quantity": "0",
    "intorstring": 0,
    "duration": "0s",
}


class _Mismatch(ValueError):
    """A value that Go cannot decode, and what a conversion says of it where that differs."""

    def __init__(self, message: str, conversion: str = "") -> None:
        super().__init__(message)
        self.conversion = conversion


class _Decoder:
    """One decoding; collects the paths of unknown fields in the order of the document."""

    def __init__(self, unknown: list[str]) -> None:
        self._unknown = unknown

    def struct(
        self, shape: StructShape, value: Any, path: tuple[str, ...], where: str, owner: str = ""
    ) -> Object:
        """Decode an object into a struct.

        `path` are the JSON names above, as errors tell them; `where` is the full path with list
        indexes, as unknown fields are told; `owner` is the struct that holds the value.
        """
        if not isinstance(value, dict):
            raise _mismatch(value, owner, path, shape)
        result: Object = {}
        fields = shape.fields
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                self._unknown.append(f"{where}.{key}" if where else key)
            elif item is not None:
                inner = f"{where}.{key}" if where else key
                decoded = self.value(field.shape, item, (*path, key), inner, shape.name)
                if not _is_left_out(field, decoded) or key in KEPT_LISTS.get(shape.name, ()):
                    result[key] = decoded
        for field in shape.always:
            if result.get(field.name) is None:
                result[field.name] = zero_of(field)
        return result

    def value(self, shape: Shape, value: Any, path: tuple[str, ...], where: str, owner: str) -> Any:
        """Decode a value that is not null."""
        if isinstance(shape, StructShape):
            return self.struct(shape, value, path, where, owner)
        if isinstance(shape, MapShape):
            return self._map(shape, value, path, where, owner)
        if isinstance(shape, ListShape):
            return self._list(shape, value, path, where, owner)
        if shape.code in _SCHEMA_CODES:
            return self._schema(shape.code, value, path, where, owner)
        return _LEAVES[shape.code](value, shape, path, owner)

    def _map(
        self, shape: MapShape, value: Any, path: tuple[str, ...], where: str, owner: str
    ) -> Object:
        if not isinstance(value, dict):
            raise _mismatch(value, owner, path, shape)
        values = shape.values
        return {
            key: _zero(values)
            if item is None
            else self.value(values, item, path, f"{where}.{key}", owner)
            for key, item in value.items()
        }

    def _list(
        self, shape: ListShape, value: Any, path: tuple[str, ...], where: str, owner: str
    ) -> list[Any]:
        if not isinstance(value, list):
            raise _mismatch(value, owner, path, shape)
        items = shape.items
        return [
            _zero(items)
            if item is None
            else self.value(items, item, path, f"{where}[{index}]", owner)
            for index, item in enumerate(value)
        ]

    def _schema(self, code: str, value: Any, path: tuple[str, ...], where: str, owner: str) -> Any:
        """Decode the fields of JSONSchemaProps that are a schema or something else."""
        schema = struct_of(_SCHEMA)
        if isinstance(value, dict):
            return self.struct(schema, value, path, where, owner)
        if code == "schemas" and isinstance(value, list):
            return self._list(ListShape(schema), value, path, where, owner)
        if code == "schemaorbool" and isinstance(value, bool):
            return value
        if code == "schemaorstrings" and isinstance(value, list):
            return self._list(ListShape(Shape("string", "string")), value, path, where, owner)
        raise _mismatch(value, owner, path, schema)


_SCHEMA_CODES = frozenset({"schemas", "schemaorbool", "schemaorstrings"})


def _is_left_out(field: Field, value: Any) -> bool:
    if field.pointer or not field.omit_empty:
        # The store knows no difference between an empty list and none.
        return isinstance(value, list | dict) and not value and field.type[:4] in ("list", "map ")
    if field.type.startswith("@"):
        return field.omit_zero and value == _zero(field.shape)
    if isinstance(value, list | dict):
        return not value and field.type[:4] in ("list", "map ")
    return value in _EMPTY and field.type not in ("intorstring", "quantity", "raw", "json")


def _mismatch(value: Any, owner: str, path: tuple[str, ...], shape: Shape) -> _Mismatch:
    go_type = shape.go_type
    found = _describe(value, go_type)
    place = f"struct field {owner}.{'.'.join(path)} of type" if path else "value of type"
    return _Mismatch(
        f"json: cannot unmarshal {found} into Go {place} {go_type}", _conversion(value, shape)
    )


def _conversion(value: Any, shape: Shape) -> str:
    """Say why a value cannot be converted; Go would make a text of an integer, and must not."""
    found = _GO_KINDS[type(value)]
    if isinstance(shape, StructShape):
        return f"cannot restore struct from: {found}"
    if isinstance(shape, ListShape | MapShape):
        kind = "slice" if isinstance(shape, ListShape) else "map"
        return f"cannot restore {kind} from {found}"
    target = _SCALAR_KINDS.get(shape.code)
    if target is None:
        return ""
    is_number = found in ("int64", "float64")
    if (is_number and target not in ("string", "bool")) or (found, target) == ("int64", "string"):
        return f"cannot convert {found} to {shape.go_type}"
    return f"unrecognized type: {target}"


def _describe(value: Any, go_type: str) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {value}" if "int" in go_type or "float" in go_type else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _string(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> str:
    if not isinstance(value, str):
        raise _mismatch(value, owner, path, shape)
    return value


def _bool(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(value, owner, path, shape)
    return value


def _integer(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> int:
    low, high = _INT_RANGES[shape.code]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _mismatch(value, owner, path, shape)
    return value


def _double(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, owner, path, shape)
    return value


def _text_with(read: Callable[[str], str]) -> Callable[[Any, Shape, tuple[str, ...], str], str]:
    def decode_text(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> str:
        if not isinstance(value, str):
            raise _mismatch(value, owner, path, shape)
        try:
            return read(value)
        except ValueError as error:
            raise _Mismatch(str(error)) from error

    return decode_text


def _quantity(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _Mismatch(QUANTITY_FAULT)
    try:
        return read_quantity(str(value))
    except ValueError as error:
        raise _Mismatch(str(error)) from error


def _int_or_string(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> int | str:
    if isinstance(value, str):
        return value
    return _integer(value, Shape("int32", "int32"), path, owner)


def _anything(value: Any, shape: Shape, path: tuple[str, ...], owner: str) -> Any:
    return value


_LEAVES: dict[str, Callable[[Any, Shape, tuple[str, ...], str], Any]] = {
    "string": _string,
    "bool": _bool,
    "int32": _integer,
    "int64": _integer,
    "byte": _integer,
    "double": _double,
    "bytes": _text_with(check_base64),
    "time": _text_with(read_time),
    "microtime": _text_with(read_micro_time),
    "duration": _string,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "raw": _anything,
    "json": _anything,
    "fields": _anything,
}
