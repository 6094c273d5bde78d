"""Find fields in an expression that the schema does not declare.

The evaluator checks types of scalars, not which fields an object has. This reads the syntax tree
that it serializes (`cel.expr.CheckedExpr`) and follows selections from `self` through the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from kubewright.local.apiserver.crd.cel_values import escape_name
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema

Message: TypeAlias = Mapping[int, list[Any]]
Scope: TypeAlias = Mapping[str, "StructuralSchema | None"]

# Field numbers of cel.expr.Expr and its parts.
_ANY_VALUE, _CHECKED_EXPR, _CHECKED_SOURCE, _POSITIONS = 2, 4, 5, 4
_ID, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 4, 5, 6, 7, 8, 9
_RESOURCE_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


class UndefinedField(msgspec.Struct, frozen=True):
    """A field that is not declared; `offset` is the place of its dot in the expression."""

    name: str
    offset: int


def find_undefined_fields(
    serialized: bytes, schema: StructuralSchema, *, is_resource: bool
) -> list[UndefinedField]:
    """Return the fields that a compiled expression selects and the schema does not declare."""
    checked = _read(_first(_read(serialized), _ANY_VALUE))
    positions = _positions(_read(_first(checked, _CHECKED_SOURCE)))
    walker = _Walker(positions, schema if is_resource else None)
    walker.visit(_read(_first(checked, _CHECKED_EXPR)), {"self": schema, "oldSelf": schema})
    return walker.found


class _Walker:
    def __init__(self, positions: Mapping[int, int], root: StructuralSchema | None) -> None:
        self.found: list[UndefinedField] = []
        self._positions = positions
        self._root = root

    def visit(self, expr: Message, scope: Scope) -> StructuralSchema | None:
        """Look at an expression; return the schema of its value, where one is known."""
        if _IDENT in expr:
            return scope.get(_text(_read(_first(expr, _IDENT)), 1))
        if _SELECT in expr:
            return self._select(expr, scope)
        if _CALL in expr:
            return self._call(_read(_first(expr, _CALL)), scope)
        if _COMPREHENSION in expr:
            self._comprehend(_read(_first(expr, _COMPREHENSION)), scope)
            return None
        for number in (_LIST, _STRUCT):
            for part in expr.get(number, ()):
                self._visit_parts(_read(part), scope)
        return None

    def _select(self, expr: Message, scope: Scope) -> StructuralSchema | None:
        select = _read(_first(expr, _SELECT))
        operand = self.visit(_read(_first(select, 1)), scope)
        name = _text(select, 2)
        if operand is None or operand.raw.get("type") != "object":
            return None
        if operand.additional is not None:
            return operand.additional
        is_resource = operand is self._root or operand.is_embedded_resource
        if is_resource and name in _RESOURCE_FIELDS:
            return _METADATA if name == "metadata" else None
        for declared, child in operand.properties.items():
            if escape_name(declared) == name:
                return child
        self.found.append(UndefinedField(name, self._positions.get(_first(expr, _ID), 0)))
        return None

    def _call(self, call: Message, scope: Scope) -> StructuralSchema | None:
        target = self.visit(_read(call[1][0]), scope) if 1 in call else None
        arguments = [self.visit(_read(argument), scope) for argument in call.get(3, ())]
        if _text(call, 2) == "_[_]" and arguments and arguments[0] is not None:
            return arguments[0].items or arguments[0].additional
        return target if _text(call, 2) in ("orValue", "value") else None

    def _comprehend(self, fold: Message, scope: Scope) -> None:
        over = self.visit(_read(_first(fold, 2)), scope)
        first, second = _text(fold, 1), _text(fold, 8)
        inner = {**scope, first: None, _text(fold, 3): None}
        if over is not None and over.items is not None:
            inner[second or first] = over.items
        elif over is not None and second:
            inner[second] = over.additional
        for number in (4, 5, 6, 7):
            if number in fold:
                self.visit(_read(_first(fold, number)), inner)

    def _visit_parts(self, message: Message, scope: Scope) -> None:
        """Visit all expressions in a list or a struct; both have them one or two levels down."""
        for values in message.values():
            for value in values:
                if isinstance(value, bytes):
                    part = _try_read(value)
                    if part is not None:
                        self.visit(part, scope)


_METADATA = StructuralSchema(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    }
)


def _positions(source: Message) -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in source.get(_POSITIONS, ()):
        pair = _read(entry)
        found[_first(pair, 1)] = pair[2][0] if 2 in pair else 0
    return found


def _first(message: Message, number: int) -> Any:
    values = message.get(number)
    return values[0] if values else b""


def _text(message: Message, number: int) -> str:
    value = _first(message, number)
    return value.decode() if isinstance(value, bytes) else ""


def _try_read(data: bytes) -> Message | None:
    try:
        return _read(data)
    except (IndexError, ValueError):
        return None


def _read(data: bytes) -> Message:
    """Read one protobuf message: the values of each field number, nested messages as bytes."""
    message: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        message.setdefault(number, []).append(value)
    return message


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif kind == 2:
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            yield tag >> 3, data[at : at + width]
            at += width
        else:
            raise ValueError(f"wire type {kind} is not used here")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
