"""The JSONPath of kubectl and of printer columns, as far as CRDs use it.

Supported: `.field`, `['field']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..field`, `[0,2]`,
`['a','b']` and filters `[?(@.type=="Ready")]` with `==`, `!=`, `<`, `<=`, `>`, `>=` or no operator.
Missing fields give no result, never an error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Step: TypeAlias = Callable[[Any], Iterator[Any]]

_FIELD = re.compile(r"((?:\\.|[^.\[\\{}\s])+)")
_FILTER = re.compile(r"\[\?\(\s*(@[^=!<>]*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\)\]")
_STRING = r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
_QUOTED = re.compile(rf"\[\s*({_STRING}(?:\s*,\s*{_STRING})*)\s*\]")
_QUOTED_NAME = re.compile(r"""'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)\"""")
_INDEXES = re.compile(r"\[\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]")
_SLICE = re.compile(r"\[\s*(-?\d*)\s*:\s*(-?\d*)\s*(?::\s*(-?\d*)\s*)?\]")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JSONPathError(ValueError):
    """The text is not a path that this server reads; the message says where it stops."""


class JSONPath:
    """A compiled path; `find` yields what it selects in an object."""

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = tuple(_parse(text.strip().removeprefix("{").removesuffix("}")))

    def find(self, value: Any) -> Iterator[Any]:
        """Yield the selected values, in document order."""
        return self._find(value, 0)

    def first(self, value: Any, default: Any = None) -> Any:
        """Return the first selected value, or a default where there is none."""
        return next(self.find(value), default)

    def _find(self, value: Any, at: int) -> Iterator[Any]:
        if at == len(self._steps):
            yield value
            return
        for found in self._steps[at](value):
            yield from self._find(found, at + 1)


def _parse(text: str) -> list[Step]:
    steps: list[Step] = []
    rest = text.removeprefix("$")
    while rest:
        step, length = _parse_step(rest)
        steps.append(step)
        rest = rest[length:]
    return steps


def _parse_step(rest: str) -> tuple[Step, int]:
    if rest.startswith(".."):
        match = _FIELD.match(rest, 2)
        if match is None:
            raise JSONPathError(f"a name must follow `..` in {rest!r}")
        return _descendants(_unescape(match.group(1))), match.end()
    if rest.startswith("."):
        if rest == ".":
            return _itself, 1
        if rest[1] == "[":
            return _itself, 1
        match = _FIELD.match(rest, 1)
        if match is None:
            raise JSONPathError(f"a name must follow `.` in {rest!r}")
        name = match.group(1)
        return (_every if name == "*" else _fields([_unescape(name)])), match.end()
    if rest.startswith("[*]"):
        return _every, 3
    if match := _FILTER.match(rest):
        return _filter(*match.groups()), match.end()
    if match := _QUOTED.match(rest):
        names = [_unescape(a or b) for a, b in _QUOTED_NAME.findall(match.group(1))]
        return _fields(names), match.end()
    if match := _INDEXES.match(rest):
        return _indexes([int(part) for part in match.group(1).split(",")]), match.end()
    if match := _SLICE.match(rest):
        return _sliced(*(int(part) if part else None for part in match.groups())), match.end()
    if match := _FIELD.match(rest):
        return _fields([_unescape(match.group(1))]), match.end()
    raise JSONPathError(f"cannot read {rest!r}")


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _itself(value: Any) -> Iterator[Any]:
    yield value


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _fields(names: list[str]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for name in names:
                if name in value:
                    yield value[name]

    return step


def _indexes(positions: list[int]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            for position in positions:
                if -len(value) <= position < len(value):
                    yield value[position]

    return step


def _sliced(start: int | None, stop: int | None, stride: int | None) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[start:stop:stride]

    return step


def _descendants(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for child in _every(value):
            yield from step(child)

    return step


def _filter(path: str, sign: str | None, literal: str | None) -> Step:
    inner = JSONPath(path.removeprefix("@"))
    compare = _OPERATORS[sign] if sign else None
    wanted = _literal(literal) if literal is not None else (lambda item: None)

    def keeps(item: Any) -> bool:
        found = list(inner.find(item))
        if compare is None:
            return bool(found)
        if not found:
            return False
        try:
            return bool(compare(found[0], wanted(item)))
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if keeps(item))

    return step


def _literal(text: str) -> Callable[[Any], Any]:
    if text[0] in "'\"" and text[-1] == text[0]:
        string = _unescape(text[1:-1])
        return lambda item: string
    if text.startswith("@"):
        path = JSONPath(text[1:])
        return lambda item: path.first(item)
    if text in ("true", "false"):
        return lambda item: text == "true"
    try:
        number = float(text) if "." in text else int(text)
    except ValueError:
        raise JSONPathError(f"cannot read the value {text!r} of a filter") from None
    return lambda item: number
