"""Values of custom objects as CEL sees them, by their schema."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.time import parse_time
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.schema.json_value import is_go_float

_WORDS = (
    "true false null in as break const continue else for function if import let loop package "
    "namespace return var void while"
)
_RESERVED = frozenset(_WORDS.split(" "))
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_GO_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def escape_name(name: str) -> str | None:
    """Return a property's name in expressions; None where no expression can name it."""
    if name in _RESERVED:
        return f"__{name}__"
    for text, escaped in _ESCAPES:
        name = name.replace(text, escaped)
    return name if _IDENTIFIER.fullmatch(name) else None


def to_cel(schema: StructuralSchema, value: Any, *, is_resource: bool = False) -> Any:
    """Convert a value: declared fields under escaped names, numbers, times and spans typed.

    Undeclared fields of a declared object are left out, and nulls: `has()` is false for both.
    """
    if type(value) is dict:
        return _map(schema, value, is_resource=is_resource or schema.is_embedded_resource)
    if type(value) is list:
        items = schema.items
        return value if items is None else [to_cel(items, item) for item in value]
    if type(value) is int and is_go_float(value):
        return float(value)
    declared = schema.raw.get("type")
    if declared == "number" and type(value) is int:
        return float(value)
    if declared == "string" and type(value) is str:
        return _string(value, schema.raw.get("format"))
    return value


def _map(schema: StructuralSchema, value: dict[str, Any], *, is_resource: bool) -> dict[str, Any]:
    if schema.additional is not None:
        return {key: to_cel(schema.additional, item) for key, item in value.items()}
    if not schema.properties and not is_resource:
        return value if schema.preserves_unknown else {}
    result: dict[str, Any] = {}
    if is_resource:
        result = {key: value[key] for key in ("apiVersion", "kind") if key in value}
        metadata = value.get("metadata") or {}
        result["metadata"] = {
            key: metadata[key] for key in ("name", "generateName") if key in metadata
        }
    for name, child in schema.properties.items():
        if is_resource and name in ("apiVersion", "kind", "metadata"):
            continue
        item = value.get(name)
        if item is None:
            continue
        escaped = escape_name(name)
        if escaped is not None:
            result[escaped] = to_cel(child, item)
            if name in _RESERVED:
                # A field may be selected by a reserved word too.
                result[name] = result[escaped]
    return result


def _string(value: str, format_name: str | None) -> Any:
    if format_name in ("date-time", "datetime"):
        return _timestamp(parse_time(value.upper()))
    if format_name == "date":
        return _timestamp(parse_time(f"{value}T00:00:00+00:00"))
    if format_name == "duration":
        spans = _GO_SPAN.findall(value)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in spans)
        return _duration(timedelta(seconds=-seconds if value.startswith("-") else seconds))
    return value


def _timestamp(moment: datetime) -> Any:
    from google.protobuf.timestamp_pb2 import Timestamp

    message = Timestamp()
    message.FromDatetime(moment)
    return message


def _duration(span: timedelta) -> Any:
    from google.protobuf.duration_pb2 import Duration

    message = Duration()
    message.FromTimedelta(span)
    return message
