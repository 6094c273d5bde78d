"""Messages decoded as google.protobuf encodes them, for objects made at random."""

from __future__ import annotations

import base64
import random
from functools import cache
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.shapes import (
    Field,
    ListShape,
    MapShape,
    Shape,
    StructShape,
    struct_of,
)
from kubewright.local.apiserver.protobuf.message import decode_struct
from kubewright.local.apiserver.protobuf.wire import WireError

_FieldProto = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FieldProto.TYPE_STRING,
    "bool": _FieldProto.TYPE_BOOL,
    "int32": _FieldProto.TYPE_INT32,
    "int64": _FieldProto.TYPE_INT64,
    "byte": _FieldProto.TYPE_INT32,
    "double": _FieldProto.TYPE_DOUBLE,
    "bytes": _FieldProto.TYPE_BYTES,
}
# Leaves that are messages: field name, number and type of each of their fields.
_LEAVES: dict[str, list[tuple[str, int, int]]] = {
    "quantity": [("string", 1, _FieldProto.TYPE_STRING)],
    "time": [("seconds", 1, _FieldProto.TYPE_INT64), ("nanos", 2, _FieldProto.TYPE_INT32)],
    "microtime": [("seconds", 1, _FieldProto.TYPE_INT64), ("nanos", 2, _FieldProto.TYPE_INT32)],
    "intorstring": [
        ("type", 1, _FieldProto.TYPE_INT64),
        ("intVal", 2, _FieldProto.TYPE_INT32),
        ("strVal", 3, _FieldProto.TYPE_STRING),
    ],
    "raw": [("raw", 1, _FieldProto.TYPE_BYTES)],
    "fields": [("Raw", 1, _FieldProto.TYPE_BYTES)],
}
_SUPPORTED = _SCALARS.keys() | _LEAVES.keys()
KINDS = (
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Event",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.StatefulSet",
    "io.k8s.api.batch.v1.CronJob",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.rbac.v1.Role",
    "io.k8s.api.storage.v1.StorageClass",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)


class Pool:
    """Message types of google.protobuf, described from the table of Go types."""

    def __init__(self) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(
            name="k8s.proto", package="k", syntax="proto2"
        )
        self._seen: set[str] = set()
        for leaf, fields in _LEAVES.items():
            message = self._file.message_type.add(name=f"Leaf_{leaf}")
            for name, number, kind in fields:
                label = _FieldProto.LABEL_OPTIONAL
                message.field.add(name=name, number=number, type=kind, label=label)
        for definition in KINDS:
            self._add(struct_of(definition))
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file)
        self._pool = pool

    def new(self, definition: str) -> Any:
        """Return an empty message of a type."""
        descriptor = self._pool.FindMessageTypeByName(f"k.{_proto_name(definition)}")
        return message_factory.GetMessageClass(descriptor)()

    def _add(self, shape: StructShape) -> None:
        if shape.definition in self._seen:
            return
        self._seen.add(shape.definition)
        message = self._file.message_type.add(name=_proto_name(shape.definition))
        for number, field in shape.by_number.items():
            if number:
                self._add_field(message, field.name, number, field.shape)
        for number, inner in shape.inlined.items():
            self._add_field(message, f"inline{number}", number, inner)

    def _add_field(self, message: Any, name: str, number: int, shape: Shape) -> None:
        if isinstance(shape, MapShape):
            entry = message.nested_type.add(name=f"{name[:1].upper()}{name[1:]}Entry")
            entry.options.map_entry = True
            self._add_field(entry, "key", 1, Shape("string", "string"))
            self._add_field(entry, "value", 2, shape.values)
            message.field.add(
                name=name,
                number=number,
                label=_FieldProto.LABEL_REPEATED,
                type=_FieldProto.TYPE_MESSAGE,
                type_name=f".k.{message.name}.{entry.name}",
            )
            return
        label = _FieldProto.LABEL_OPTIONAL
        if isinstance(shape, ListShape):
            label, shape = _FieldProto.LABEL_REPEATED, shape.items
        field = message.field.add(name=name, number=number, label=label)
        if isinstance(shape, StructShape):
            self._add(shape)
            field.type, field.type_name = (
                _FieldProto.TYPE_MESSAGE,
                f".k.{_proto_name(shape.definition)}",
            )
        elif shape.code in _LEAVES:
            field.type, field.type_name = _FieldProto.TYPE_MESSAGE, f".k.Leaf_{shape.code}"
        else:
            field.type = _SCALARS[shape.code]


def _proto_name(definition: str) -> str:
    return definition.replace(".", "_").replace("-", "_")


@cache
def pool() -> Pool:
    return Pool()


def fill_struct(message: Any, shape: StructShape, rng: random.Random, depth: int) -> Object:
    """Set some fields of a message at random; return the object that it stands for."""
    result: Object = {}
    for number, field in shape.by_number.items():
        if number and rng.random() < (0.6 if depth < 4 else 0.1):
            fill_field(message, field, rng, depth, result)
    for number, inner in shape.inlined.items():
        inline = getattr(message, f"inline{number}")
        inline.SetInParent()
        result |= fill_struct(inline, inner, rng, depth + 1)
    return result


def fill_field(message: Any, field: Field, rng: random.Random, depth: int, result: Object) -> None:
    shape, target = field.shape, getattr(message, field.name)
    if isinstance(shape, ListShape):
        result[field.name] = [fill_item(target, shape.items, rng, depth) for _ in range(2)]
    elif isinstance(shape, MapShape):
        result[field.name] = {
            key: fill_entry(target, key, shape.values, rng, depth) for key in ("a", "ü")
        }
    elif isinstance(shape, StructShape):
        target.SetInParent()
        result[field.name] = fill_struct(target, shape, rng, depth + 1)
    elif shape.code in _LEAVES:
        result[field.name] = fill_leaf(target, shape.code, rng)
    else:
        raw, shown = scalar(shape.code, rng)
        setattr(message, field.name, raw)
        result[field.name] = shown


def fill_item(target: Any, shape: Shape, rng: random.Random, depth: int) -> Any:
    if isinstance(shape, StructShape):
        return fill_struct(target.add(), shape, rng, depth + 1)
    if shape.code in _LEAVES:
        return fill_leaf(target.add(), shape.code, rng)
    raw, shown = scalar(shape.code, rng)
    target.append(raw)
    return shown


def fill_entry(target: Any, key: str, shape: Shape, rng: random.Random, depth: int) -> Any:
    if isinstance(shape, StructShape):
        return fill_struct(target[key], shape, rng, depth + 1)
    if shape.code in _LEAVES:
        return fill_leaf(target[key], shape.code, rng)
    raw, shown = scalar(shape.code, rng)
    target[key] = raw
    return shown


def scalar(code: str, rng: random.Random) -> tuple[Any, Any]:
    """Return a value that is not zero, for protobuf and as JSON has it."""
    if code == "string":
        text = rng.choice(["x", "näme", "a b"])
        return text, text
    if code == "bool":
        return True, True
    if code == "double":
        return 1.5, 1.5
    if code == "bytes":
        data = rng.randbytes(5)
        return data, base64.b64encode(data).decode()
    bits = 62 if code == "int64" else 30
    number = rng.choice([1, -1, 2**bits, -(2**bits)])
    return number, number


def fill_leaf(message: Any, code: str, rng: random.Random) -> Any:
    message.SetInParent()
    if code == "quantity":
        message.string = "64Mi"
        return "64Mi"
    if code in ("time", "microtime"):
        message.seconds, message.nanos = 1704067200, 123456000
        return "2024-01-01T00:00:00Z" if code == "time" else "2024-01-01T00:00:00.123456Z"
    if code == "intorstring":
        if rng.random() < 0.5:
            message.type, message.strVal = 1, "25%"
            return "25%"
        message.intVal = -7
        return -7
    text = b'{"f:a":{}}'
    if code == "raw":
        message.raw = text
    else:
        message.Raw = text
    return {"f:a": {}}


@pytest.mark.parametrize("definition", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_reads_what_google_protobuf_writes(definition: str, seed: int) -> None:
    message = pool().new(definition)
    shape = struct_of(definition)
    expected = fill_struct(message, shape, random.Random(seed), 0)
    assert decode_struct(shape, message.SerializeToString()) == expected


def test_leaves_out_what_go_writes_although_it_is_unset() -> None:
    message = pool().new("io.k8s.api.apps.v1.Deployment")
    message.metadata.name = ""
    message.metadata.creationTimestamp.SetInParent()
    message.spec.minReadySeconds = 0
    message.spec.replicas = 0
    shape = struct_of("io.k8s.api.apps.v1.Deployment")
    decoded = decode_struct(shape, message.SerializeToString())
    assert decoded == {"metadata": {}, "spec": {"replicas": 0}}


def test_skips_fields_it_does_not_know() -> None:
    shape = struct_of("io.k8s.api.core.v1.ConfigMap")
    unknown = b"\xfa\x3f\x03abc"  # field 1023, three bytes
    assert decode_struct(shape, unknown + b"\x0a\x03\x0a\x01a") == {"metadata": {"name": "a"}}


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b"]
)
def test_refuses_what_is_no_message(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_struct(struct_of("io.k8s.api.core.v1.ConfigMap"), data)
