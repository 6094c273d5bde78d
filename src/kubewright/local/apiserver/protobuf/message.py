"""Messages of the built-in kinds, decoded into what a JSON client would have sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kubewright.api.resource import Object
from kubewright.api.time import format_micro_time, format_time
from kubewright.local.apiserver.builtin.leaves import encode_base64
from kubewright.local.apiserver.builtin.shapes import (
    Field,
    ListShape,
    MapShape,
    Shape,
    StructShape,
    struct_of,
)
from kubewright.local.apiserver.protobuf.wire import (
    DELIMITED,
    Value,
    WireError,
    read_fields,
    read_packed,
    signed,
    to_double,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_NUMBERS = frozenset({"bool", "int32", "int64", "byte"})
_json = msgspec.json.Decoder()


def decode_struct(shape: StructShape, data: bytes) -> Object:
    """Decode a message into an object.

    Fields that the type does not know are skipped. Go writes every field that is not a pointer, set
    or not: empty ones are left out, as JSON leaves them out.

    Raises:
        WireError: the bytes are no message of this type.
    """
    result: Object = {}
    for number, wire, value in read_fields(data):
        field = shape.by_number.get(number)
        if field is not None:
            _add(result, field, wire, value)
        elif inner := shape.inlined.get(number):
            result |= decode_struct(inner, _bytes(value))
    return {key: value for key, value in result.items() if value is not None}


def _add(result: Object, field: Field, wire: int, value: Value) -> None:
    shape = field.shape
    if isinstance(shape, MapShape):
        key, item = _entry(shape.values, _bytes(value))
        result.setdefault(field.name, {})[key] = item
    elif isinstance(shape, ListShape):
        items = result.setdefault(field.name, [])
        if wire == DELIMITED and shape.items.code in _NUMBERS:
            items += [decode_value(shape.items, number) for number in read_packed(_bytes(value))]
        else:
            items.append(decode_value(shape.items, value))
    else:
        decoded = decode_value(shape, value)
        is_unset = not field.pointer and field.omit_empty and decoded in ("", 0, False)
        result[field.name] = None if is_unset and _is_droppable(shape) else decoded


def _is_droppable(shape: Shape) -> bool:
    return shape.code in ("string", "bool", "int32", "int64", "byte", "bytes", "double")


def _entry(values: Shape, data: bytes) -> tuple[str, Any]:
    key, item = "", b""
    found: Value = item
    for number, _, value in read_fields(data):
        if number == 1:
            key = _bytes(value).decode()
        elif number == 2:
            found = value
    if isinstance(values, ListShape):
        return key, _wrapped(values, _bytes(found))
    return key, decode_value(values, found)


def _wrapped(shape: ListShape, data: bytes) -> list[Any]:
    """Decode a list that is a message of its own: `items` is its field 1."""
    return [
        decode_value(shape.items, value) for number, _, value in read_fields(data) if number == 1
    ]


def decode_value(shape: Shape, value: Value) -> Any:
    """Decode the value of one field, or of one item of a list."""
    if isinstance(shape, StructShape):
        return decode_struct(shape, _bytes(value))
    return _LEAVES[shape.code](value)


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise WireError("proto: wrong wireType = 0")
    return value


def _number(value: Value) -> int:
    if isinstance(value, bytes):
        # A map entry without a value has the zero of its type.
        if not value:
            return 0
        raise WireError("proto: wrong wireType = 2")
    return value


def _numbers(data: Value) -> dict[int, int]:
    return {number: signed(_number(value)) for number, _, value in read_fields(_bytes(data))}


def _moment(value: Value) -> datetime | None:
    # An empty message is the zero time, which JSON writes as null or leaves out.
    if not _bytes(value):
        return None
    parts = _numbers(value)
    return _EPOCH + timedelta(seconds=parts.get(1, 0), microseconds=parts.get(2, 0) // 1000)


def _time(value: Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else format_time(moment)


def _micro_time(value: Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else format_micro_time(moment)


def _duration(value: Value) -> str:
    nanoseconds = _numbers(value).get(1, 0)
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    sign = "-" if nanoseconds < 0 else ""
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    hours, minutes = seconds // 3600, seconds // 60 % 60
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{seconds % 60}{fraction}s"


def _quantity(value: Value) -> str:
    found = [item for number, _, item in read_fields(_bytes(value)) if number == 1]
    return _bytes(found[-1]).decode() if found else "0"


def _int_or_string(value: Value) -> int | str:
    parts = {number: item for number, _, item in read_fields(_bytes(value))}
    if _number(parts.get(1, 0)) == 1:
        return _bytes(parts.get(3, b"")).decode()
    return signed(_number(parts.get(2, 0)), 32)


def _raw_json(value: Value) -> Any:
    found = [item for number, _, item in read_fields(_bytes(value)) if number == 1]
    text = _bytes(found[-1]) if found else b""
    if not text:
        return None
    try:
        return _json.decode(text)
    except msgspec.DecodeError as error:
        raise WireError(str(error)) from error


def _schema_or(decode_other: Callable[[dict[int, list[Value]]], Any], schema_number: int) -> Any:
    """Build the decoder of a field that is a schema or something else."""

    def decode(value: Value) -> Any:
        parts: dict[int, list[Value]] = {}
        for number, _, item in read_fields(_bytes(value)):
            parts.setdefault(number, []).append(item)
        if schema_number in parts:
            return decode_struct(struct_of(_SCHEMA), _bytes(parts[schema_number][-1]))
        return decode_other(parts)

    return decode


def _schemas(parts: dict[int, list[Value]]) -> list[Object]:
    return [decode_struct(struct_of(_SCHEMA), _bytes(item)) for item in parts.get(2, [])]


def _allows(parts: dict[int, list[Value]]) -> bool:
    return bool(_number(parts.get(1, [0])[-1]))


def _properties(parts: dict[int, list[Value]]) -> list[str]:
    return [_bytes(item).decode() for item in parts.get(2, [])]


_LEAVES: dict[str, Callable[[Value], Any]] = {
    "string": lambda value: _bytes(value).decode(),
    "bool": lambda value: bool(_number(value)),
    "int32": lambda value: signed(_number(value), 32),
    "int64": lambda value: signed(_number(value)),
    "byte": _number,
    "double": lambda value: to_double(_number(value)),
    "bytes": lambda value: encode_base64(_bytes(value)),
    "time": _time,
    "microtime": _micro_time,
    "duration": _duration,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "raw": _raw_json,
    "fields": _raw_json,
    "json": _raw_json,
    "schemas": _schema_or(_schemas, 1),
    "schemaorbool": _schema_or(_allows, 2),
    "schemaorstrings": _schema_or(_properties, 1),
}
