"""Label and field selectors: their grammar, their messages, whether something matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubewright.api.errors import BadRequest

Labels = Mapping[str, str]

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SYMBOLS = ("==", "!=", "=", "!", ">", "<", "(", ")", ",")
_SPECIAL = "=!><(),"
_OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_KEY_RULE = (
    f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label: `operator` is `in`, `notin`, `exists`, `!`, `gt` or `lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Tell whether the labels fulfil the condition."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "!":
            return value is None
        try:
            number = int(value) if value is not None else None
        except ValueError:
            return False
        if number is None:
            return False
        bound = int(self.values[0])
        return number > bound if self.operator == "gt" else number < bound


class LabelSelector(msgspec.Struct, frozen=True):
    """A conjunction of requirements; none of them matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Labels) -> bool:
        """Tell whether the labels fulfil every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse a label selector such as `app in (web, db),!old,tier>1`.

    Raises:
        BadRequest: the text is none; the message is that of apimachinery's parser.
    """
    return LabelSelector(tuple(_LabelParser(text).parse())) if text else LabelSelector()


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._at = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            kind, text = self._peek(values=True)
            if kind in ("!", "identifier"):
                try:
                    requirements.append(self._requirement())
                except ValueError as error:
                    raise _refused(f"unable to parse requirement: {error}") from None
                kind, text = self._next(values=False)
                if kind == "end":
                    return requirements
                if kind != ",":
                    raise _refused(f"found '{text}', expected: ',' or 'end of string'")
                kind, text = self._peek(values=True)
                if kind not in ("identifier", "!"):
                    raise _refused(f"found '{text}', expected: identifier after ','")
            elif kind == "end":
                return requirements
            else:
                raise _refused(f"found '{text}', expected: !, identifier, or 'end of string'")

    def _requirement(self) -> Requirement:
        key, operator = self._key()
        if operator in ("exists", "!"):
            return _build(key, operator, ())
        operator = self._operator()
        if operator in ("in", "notin"):
            return _build(key, operator, self._values())
        return _build(key, operator, (self._exact_value(),))

    def _key(self) -> tuple[str, str]:
        operator = ""
        kind, text = self._next(values=True)
        if kind == "!":
            operator = "!"
            kind, text = self._next(values=True)
        if kind != "identifier":
            raise ValueError(f"found '{text}', expected: identifier")
        if problem := key_problem(text):
            raise ValueError(f'<nil>: Invalid value: "{text}": {problem}')
        kind, _ = self._peek(values=True)
        if kind in ("end", ",") and not operator:
            operator = "exists"
        return text, operator

    def _operator(self) -> str:
        _, text = self._next(values=False)
        if text not in _OPERATORS:
            raise ValueError(f"found '{text}', expected: in, notin, =, ==, !=, gt, lt")
        return text

    def _values(self) -> tuple[str, ...]:
        kind, text = self._next(values=True)
        if kind != "(":
            raise ValueError(f"found '{text}' expected: '('")
        values: list[str] = []
        expecting = True
        while True:
            kind, text = self._next(values=True)
            if kind == "identifier":
                values.append(text)
                expecting = False
            elif kind == ",":
                if expecting:
                    values.append("")
                expecting = True
            elif kind == ")":
                if expecting:
                    values.append("")
                return tuple(values)
            else:
                raise ValueError(f"found '{text}', expected: ',', ')' or identifier")

    def _exact_value(self) -> str:
        kind, _ = self._peek(values=True)
        if kind in ("end", ","):
            return ""
        kind, text = self._next(values=True)
        if kind != "identifier":
            raise ValueError(f"found '{text}', expected: identifier")
        return text

    def _peek(self, *, values: bool) -> tuple[str, str]:
        kind, text = self._tokens[min(self._at, len(self._tokens) - 1)]
        # `in` and `notin` are operators only where a value cannot stand.
        if kind == "word":
            kind = "identifier" if values or text not in ("in", "notin") else text
        return kind, text

    def _next(self, *, values: bool) -> tuple[str, str]:
        token = self._peek(values=values)
        self._at += 1
        return token


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        symbol = next((s for s in _SYMBOLS if text.startswith(s, at)), None)
        if symbol:
            tokens.append((symbol, symbol))
            at += len(symbol)
            continue
        end = at
        while end < len(text) and text[end] not in _SPECIAL and not text[end].isspace():
            end += 1
        tokens.append(("word", text[at:end]))
        at = end
    return [*tokens, ("end", "")]


def _build(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    names = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
    operator = names.get(operator, operator)
    if operator in ("gt", "lt"):
        for index, value in enumerate(values):
            if not re.fullmatch(r"[-+]?\d+", value):
                raise ValueError(
                    f"values[{index}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, "
                    "the value must be an integer"
                )
    for index, value in enumerate(values):
        if not _VALUE.fullmatch(value):
            raise ValueError(f'values[{index}][{key}]: Invalid value: "{value}": {_VALUE_RULE}')
        if len(value) > 63:
            raise ValueError(
                f'values[{index}][{key}]: Invalid value: "{value}": must be no more than 63 bytes'
            )
    return Requirement(key, operator, values)


def key_problem(key: str) -> str:
    """Return what is wrong with a label key; empty where nothing is."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return _KEY_RULE
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        return (
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
            "'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    if not _NAME.fullmatch(name):
        return f"name part {_NAME_RULE}"
    return ""


class FieldRequirement(msgspec.Struct, frozen=True):
    """One condition on a field: equal to a value, or not."""

    field: str
    value: str
    equal: bool = True


class FieldSelector(msgspec.Struct, frozen=True):
    """A conjunction of conditions on fields."""

    requirements: tuple[FieldRequirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, read: Callable[[str], str]) -> bool:
        """Tell whether all fields, as `read` returns them, fulfil their conditions."""
        return all((read(r.field) == r.value) == r.equal for r in self.requirements)

    def exact(self, field: str) -> str | None:
        """Return the value that a field must have, if one condition says so."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.equal:
                return requirement.value
        return None


def parse_field_selector(text: str) -> FieldSelector:
    r"""Parse a field selector such as `status.phase!=Failed,spec.nodeName=n1`.

    A backslash escapes `,`, `=` and itself in values.

    Raises:
        BadRequest: the text is none.
    """
    requirements: list[FieldRequirement] = []
    for term in _split_terms(text):
        if not term:
            continue
        found = re.search(r"(?<!\\)(!=|==|=)", term)
        if not found:
            raise _refused(f"invalid selector: '{text}'; can't understand '{term}'")
        value = re.sub(r"\\([\\,=])", r"\1", term[found.end() :])
        requirements.append(FieldRequirement(term[: found.start()], value, found[0] != "!="))
    return FieldSelector(tuple(requirements))


def _split_terms(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _refused(message: str) -> BadRequest:
    return BadRequest(message, None)


def format_label_selector(selector: Mapping[str, Any]) -> str:
    """Write a LabelSelector object as text, its conditions sorted by key."""
    terms: list[tuple[str, str]] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        terms.append((key, f"{key}={value}"))
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        text = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(operator, key)
        terms.append((key, text))
    return ",".join(text for _, text in sorted(terms))


def build_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Build what matches as a LabelSelector object says; an empty one matches everything."""
    requirements = [
        Requirement(key, "in", (value,))
        for key, value in ((selector or {}).get("matchLabels") or {}).items()
    ]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for expression in (selector or {}).get("matchExpressions") or ():
        operator = operators.get(expression.get("operator", ""), "in")
        values = tuple(expression.get("values") or ())
        requirements.append(Requirement(expression.get("key", ""), operator, values))
    return LabelSelector(tuple(requirements))
