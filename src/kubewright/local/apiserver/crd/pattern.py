"""Patterns of schemas: RE2 syntax, as Kubernetes reads it, on Python's `re`."""

from __future__ import annotations

import functools
import re

# Escapes that RE2 has and Python lacks, or that mean something else there.
_ESCAPES = {"z": r"\Z", "C": "[\\s\\S]"}
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
# Python reads these, RE2 does not: it never looks back.
_LOOK_AROUND = re.compile(r"\(\?(?:<?[=!]|>|#|\(|P=)|[*+?}]\+")
_LEADING_FLAGS = re.compile(r"\(\?([imsU]+)\)")


class UnsupportedPattern(ValueError):
    """A pattern that RE2 reads and this server cannot; the message names the construct."""


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of a schema; match with `search`, since patterns are not anchored.

    Raises:
        UnsupportedPattern: RE2 has the construct and Python's `re` has not.
        ValueError: the pattern is not a regular expression.
    """
    try:
        return re.compile(_translate(pattern), re.ASCII)
    except re.error as error:
        raise ValueError(f"error parsing regexp: {error}") from error


def _translate(pattern: str) -> str:
    """Rewrite what the two syntaxes spell differently."""
    flags = _LEADING_FLAGS.match(pattern)
    multiline = bool(flags and "m" in flags.group(1))
    out: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            if not in_class and pattern[at + 1 : at + 2] in tuple("123456789"):
                raise _unreadable("invalid escape sequence", pattern[at : at + 2])
            text, at = _escape(pattern, at)
            out.append(text)
            continue
        if not in_class and (look := _LOOK_AROUND.match(pattern, at)):
            raise _unreadable("invalid or unsupported Perl syntax", look.group())
        if in_class:
            posix = _POSIX.match(pattern, at)
            if posix:
                out.append(_posix_class(posix))
                at = posix.end()
                continue
            in_class = char != "]"
        elif char == "[":
            in_class = True
            out.append(char)
            at += 1
            # A bracket right after the opening one is a member, not the end.
            if pattern[at : at + 1] == "^":
                out.append("^")
                at += 1
            if pattern[at : at + 1] == "]":
                out.append(r"\]")
                at += 1
            continue
        elif char == "$" and not multiline:
            # Python's `$` also matches before a final newline.
            char = r"\Z"
        out.append(char)
        at += 1
    return "".join(out)


def _escape(pattern: str, at: int) -> tuple[str, int]:
    following = pattern[at + 1 : at + 2]
    if following in ("p", "P"):
        raise UnsupportedPattern(r"Unicode classes (\p) are not supported by this server")
    if following == "Q":
        end = pattern.find(r"\E", at + 2)
        end = len(pattern) if end < 0 else end
        return re.escape(pattern[at + 2 : end]), min(end + 2, len(pattern))
    if pattern[at + 1 : at + 3] == "x{":
        end = pattern.index("}", at)
        return re.escape(chr(int(pattern[at + 3 : end], 16))), end + 1
    return _ESCAPES.get(following, "\\" + following), at + 2


def _unreadable(fault: str, text: str) -> ValueError:
    return ValueError(f"error parsing regexp: {fault}: `{text}`")


def _posix_class(match: re.Match[str]) -> str:
    negated, name = match.groups()
    if name not in _POSIX_CLASSES:
        raise ValueError(f"invalid character class range: `[:{name}:]`")
    if negated:
        raise UnsupportedPattern(f"[:^{name}:] is not supported by this server")
    return _POSIX_CLASSES[name]
