"""Label selectors as text, the form of queries and of `status.selector` of a scale."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector, Requirement

_TOKEN = re.compile(r"\s*(!=|==|=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")
_EQUALS = {"=": "In", "==": "In", "!=": "NotIn"}
_WORDS = {"In": "in", "NotIn": "notin"}


def parse_selector(text: str) -> LabelSelector:
    """Read a selector such as `app=web,tier in (a,b),!old`.

    Raises:
        ValueError: the text is no selector.
    """
    tokens = _tokens(text)
    requirements: list[Requirement] = []
    token = next(tokens)
    while token:
        requirement, token = _read_requirement(token, tokens, text)
        requirements.append(requirement)
        if token == ",":
            token = next(tokens)
            if not token:
                raise _wrong(text)
        elif token:
            raise _wrong(text)
    return LabelSelector(tuple(requirements))


def _tokens(text: str) -> Iterator[str]:
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise _wrong(text)
        yield match[1]
        position = match.end()
    while True:
        yield ""


def _read_requirement(token: str, tokens: Iterator[str], text: str) -> tuple[Requirement, str]:
    """Return the requirement that begins with a token, and the token after it."""
    if token == "!":
        return Requirement(_word(next(tokens), text), "DoesNotExist"), next(tokens)
    key, operator = _word(token, text), next(tokens)
    if operator in ("", ","):
        return Requirement(key, "Exists"), operator
    if operator in _EQUALS:
        value = next(tokens)
        if value in ("", ","):
            return Requirement(key, _EQUALS[operator], ("",)), value
        return Requirement(key, _EQUALS[operator], (_word(value, text),)), next(tokens)
    if operator in ("<", ">"):
        kind = "Lt" if operator == "<" else "Gt"
        return Requirement(key, kind, (_word(next(tokens), text),)), next(tokens)
    if operator not in ("in", "notin") or next(tokens) != "(":
        raise _wrong(text)
    return Requirement(key, "In" if operator == "in" else "NotIn", _values(tokens, text)), next(
        tokens
    )


def _values(tokens: Iterator[str], text: str) -> tuple[str, ...]:
    values: list[str] = []
    last = ","
    while (token := next(tokens)) != ")":
        if token == ",":
            values += [""] if last == "," else []
        else:
            values.append(_word(token, text))
        last = token
    return tuple([*values, ""] if last == "," else values)


def _word(token: str, text: str) -> str:
    if not token or token in "!=()<>,==":
        raise _wrong(text)
    return token


def _wrong(text: str) -> ValueError:
    return ValueError(f"unable to parse requirement: {text!r} is no label selector")


def format_query(selector: Object | None) -> str:
    """Write a `metav1.LabelSelector` for a query, in the order of the keys."""
    requirements = LabelSelector.of(selector).requirements
    return ",".join(_format(each) for each in sorted(requirements, key=lambda r: r.key))


def _format(requirement: Requirement) -> str:
    values = requirement.values
    match requirement.operator:
        case "Exists":
            return requirement.key
        case "DoesNotExist":
            return f"!{requirement.key}"
        case "In" if len(values) == 1:
            return f"{requirement.key}={values[0]}"
    word = _WORDS.get(requirement.operator, requirement.operator.lower())
    return f"{requirement.key} {word} ({','.join(sorted(values))})"
