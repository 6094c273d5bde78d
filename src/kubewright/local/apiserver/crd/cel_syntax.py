"""Syntax trees of CEL expressions, read from what the evaluator serializes.

The evaluator hands out an expression that it parsed and did not check as `cel.expr.ParsedExpr` in
protobuf, with macros expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

Message: TypeAlias = Mapping[int, list[Any]]

# Field numbers of cel.expr.Expr and its parts.
_ANY_VALUE, _PARSED_EXPR, _PARSED_SOURCE, _POSITIONS = 2, 2, 3, 4
_ID, _CONSTANT, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 3, 4, 5, 6, 7, 8, 9
_CONSTANTS = {
    1: "null_type",
    2: "bool",
    3: "int",
    4: "uint",
    5: "double",
    6: "string",
    7: "bytes",
    8: "duration",
    9: "timestamp",
}
_SIGN = 1 << 63


class Literal(msgspec.Struct, frozen=True):
    """A constant; `value` is its Python value where it is a text or an integer."""

    id: int
    type: str
    value: Any


class Ident(msgspec.Struct, frozen=True):
    """A variable."""

    id: int
    name: str


class Select(msgspec.Struct, frozen=True):
    """A field of an operand; `test_only` where `has()` asks for it."""

    id: int
    operand: Node
    field: str
    test_only: bool


class Call(msgspec.Struct, frozen=True):
    """A call of a function or, with a target, of a method."""

    id: int
    function: str
    target: Node | None
    args: tuple[Node, ...]


class ListLiteral(msgspec.Struct, frozen=True):
    """A list as it is written."""

    id: int
    elements: tuple[Node, ...]
    optional: frozenset[int]


class MapLiteral(msgspec.Struct, frozen=True):
    """A map, or a message without a known type, as it is written."""

    id: int
    entries: tuple[tuple[Node | None, Node], ...]
    type_name: str


class Comprehension(msgspec.Struct, frozen=True):
    """What the macros `all`, `exists`, `map`, `filter`, `cel.bind` and more expand to."""

    id: int
    variable: str
    second: str
    over: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = Literal | Ident | Select | Call | ListLiteral | MapLiteral | Comprehension


class SyntaxTree(msgspec.Struct, frozen=True):
    """The tree of an expression, and the offset of each node in its text."""

    root: Node
    offsets: Mapping[int, int]


def read_tree(serialized: bytes) -> SyntaxTree:
    """Read the tree of an expression that was parsed.

    Raises:
        ValueError: a part of it is not known.
    """
    parsed = _read(_first(_read(serialized), _ANY_VALUE))
    offsets = _offsets(_read(_first(parsed, _PARSED_SOURCE)))
    return SyntaxTree(_node(_first(parsed, _PARSED_EXPR)), offsets)


def _node(data: bytes) -> Node:
    expr = _read(data)
    identity = _first(expr, _ID) or 0
    for number, build in _BUILDERS.items():
        if number in expr:
            return build(identity, _read(_first(expr, number)))
    raise ValueError("an expression of a kind that is not known")


def _literal(identity: int, constant: Message) -> Node:
    number = next(iter(constant), 1)
    value: Any = constant[number][0] if number in constant else None
    if number == 3 and value >= _SIGN:
        value -= _SIGN << 1
    elif number == 6:
        value = value.decode()
    return Literal(identity, _CONSTANTS[number], value)


def _ident(identity: int, ident: Message) -> Node:
    return Ident(identity, _text(ident, 1))


def _select(identity: int, select: Message) -> Node:
    return Select(identity, _node(_first(select, 1)), _text(select, 2), bool(_first(select, 3)))


def _call(identity: int, call: Message) -> Node:
    target = _node(call[1][0]) if 1 in call else None
    return Call(identity, _text(call, 2), target, tuple(_node(each) for each in call.get(3, ())))


def _list(identity: int, items: Message) -> Node:
    optional = frozenset(_packed(_first(items, 2)))
    return ListLiteral(identity, tuple(_node(each) for each in items.get(1, ())), optional)


def _map(identity: int, struct: Message) -> Node:
    entries = []
    for data in struct.get(2, ()):
        entry = _read(data)
        key = _node(entry[3][0]) if 3 in entry else None
        entries.append((key, _node(_first(entry, 4))))
    return MapLiteral(identity, tuple(entries), _text(struct, 1))


def _comprehension(identity: int, fold: Message) -> Node:
    return Comprehension(
        id=identity,
        variable=_text(fold, 1),
        second=_text(fold, 8),
        over=_node(_first(fold, 2)),
        accumulator=_text(fold, 3),
        start=_node(_first(fold, 4)),
        condition=_node(_first(fold, 5)),
        step=_node(_first(fold, 6)),
        result=_node(_first(fold, 7)),
    )


_BUILDERS = {
    _CONSTANT: _literal,
    _IDENT: _ident,
    _SELECT: _select,
    _CALL: _call,
    _LIST: _list,
    _STRUCT: _map,
    _COMPREHENSION: _comprehension,
}


def _offsets(source: Message) -> dict[int, int]:
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


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


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
