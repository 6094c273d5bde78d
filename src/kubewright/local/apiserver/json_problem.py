"""What Go's encoding/json says about a text that is no JSON."""

from __future__ import annotations

import re

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_ESCAPES = '"\\/bfnrt'


class _Problem(Exception):
    pass


def find_problem(text: str) -> str:
    """Return the complaint about a text; empty where it is JSON."""
    scanner = _Scanner(text)
    try:
        scanner.value()
        scanner.space()
        if scanner.at < len(text):
            scanner.invalid("after top-level value")
    except _Problem as problem:
        return str(problem)
    except RecursionError:
        return "exceeded max depth"
    return ""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def peek(self) -> str:
        if self.at >= len(self.text):
            raise _Problem("unexpected end of JSON input")
        return self.text[self.at]

    def invalid(self, context: str) -> None:
        raise _Problem(f"invalid character {_quote(self.peek())} {context}")

    def value(self) -> None:
        self.space()
        first = self.peek()
        if first == "{":
            self.members()
        elif first == "[":
            self.elements()
        elif first == '"':
            self.string()
        elif first == "-" or first.isdigit():
            self.number()
        else:
            for literal in ("true", "false", "null"):
                if first == literal[0]:
                    self.literal(literal)
                    return
            self.invalid("looking for beginning of value")

    def members(self) -> None:
        self.at += 1
        self.space()
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            self.space()
            if self.peek() != '"':
                self.invalid("looking for beginning of object key string")
            self.string()
            self.space()
            if self.peek() != ":":
                self.invalid("after object key")
            self.at += 1
            self.value()
            self.space()
            if self.peek() == "}":
                self.at += 1
                return
            if self.peek() != ",":
                self.invalid("after object key:value pair")
            self.at += 1

    def elements(self) -> None:
        self.at += 1
        self.space()
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            self.value()
            self.space()
            if self.peek() == "]":
                self.at += 1
                return
            if self.peek() != ",":
                self.invalid("after array element")
            self.at += 1

    def string(self) -> None:
        self.at += 1
        while (character := self.peek()) != '"':
            if character == "\\":
                self.at += 1
                self.escape()
            elif ord(character) < 0x20:
                self.invalid("in string literal")
            else:
                self.at += 1
        self.at += 1

    def escape(self) -> None:
        if self.peek() == "u":
            for _ in range(4):
                self.at += 1
                if self.peek() not in "0123456789abcdefABCDEF":
                    self.invalid("in \\u hexadecimal character escape")
        elif self.peek() not in _ESCAPES:
            self.invalid("in string escape code")
        self.at += 1

    def number(self) -> None:
        match = _NUMBER.match(self.text, self.at)
        if not match:
            self.at += 1
            self.peek()
            self.invalid("in numeric literal")
        else:
            self.at = match.end()

    def literal(self, word: str) -> None:
        for index, expected in enumerate(word):
            if self.peek() != expected:
                self.invalid(f"in literal {word} (expecting {_quote(word[index])})")
            self.at += 1


def _quote(character: str) -> str:
    if character == "'":
        return "'\\''"
    if character == '"':
        return "'\"'"
    if character.isprintable():
        return f"'{character}'"
    code = ord(character)
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if character in named:
        return f"'{named[character]}'"
    return f"'\\u{code:04x}'" if code > 0x7F else f"'\\x{code:02x}'"
