"""Patterns of schemas: RE2 syntax, as Kubernetes reads it, on Python's `re`."""

from __future__ import annotations

import functools
import re

import msgspec

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
_GROUP = re.compile(r"\((?:\?(?:([imsU]*)(?:-([imsU]+))?([:)])|P?(<[^>]*>)))?")


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


class _Group(msgspec.Struct):
    """An open group: the flags that were set inside it so far, each as the text that sets them."""

    multiline: bool
    flags: list[str] = []

    def set_flags(self, match: re.Match[str]) -> str:
        """Set flags for the rest of the group, as `(?i)` does; Python knows that at the start only.

        The rest becomes a group of its own, once in each alternative that follows.
        """
        self.flags.append(_flags(match))
        self.multiline = _is_multiline(match, self.multiline)
        return self.flags[-1]

    def end(self) -> str:
        """Return what ends the groups of the flags."""
        return ")" * len(self.flags)


def _translate(pattern: str) -> str:
    """Rewrite what the two syntaxes spell differently."""
    out: list[str] = []
    groups = [_Group(multiline=False)]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            if pattern[at + 1 : at + 2] in tuple("123456789"):
                raise _unreadable("invalid escape sequence", pattern[at : at + 2])
            text, at = _escape(pattern, at)
        elif look := _LOOK_AROUND.match(pattern, at):
            raise _unreadable("invalid or unsupported Perl syntax", look.group())
        elif char == "[":
            text, at = _class(pattern, at)
        elif char == "(":
            text, at = _open(pattern, at, groups)
        else:
            text = _operator(char, groups)
            at += 1
        out.append(text)
    return "".join(out) + groups[-1].end()


def _open(pattern: str, at: int, groups: list[_Group]) -> tuple[str, int]:
    match = _GROUP.match(pattern, at)
    if match is None:
        return "(", at + 1
    *_, end, name = match.groups()
    if end == ")":
        return groups[-1].set_flags(match), match.end()
    multiline = groups[-1].multiline
    groups.append(_Group(_is_multiline(match, multiline) if end else multiline))
    if end:
        return _flags(match), match.end()
    return f"(?P{name}" if name else "(", match.end()


def _operator(char: str, groups: list[_Group]) -> str:
    """Translate a character outside of classes."""
    group = groups[-1]
    if char == "$" and not group.multiline:
        # Python's `$` also matches before a final newline.
        return r"\Z"
    if char == "|":
        return f"{group.end()}|{''.join(group.flags)}"
    if char == ")" and len(groups) > 1:
        return f"{groups.pop().end()})"
    return char


def _flags(match: re.Match[str]) -> str:
    on, off, *_ = match.groups(default="")
    if "U" in on + off:
        raise UnsupportedPattern("The flag U (ungreedy) is not supported by this server")
    return f"(?{on}-{off}:" if off else f"(?{on}:"


def _is_multiline(match: re.Match[str], before: bool) -> bool:
    on, off, *_ = match.groups(default="")
    return "m" not in off and (before or "m" in on)


def _class(pattern: str, at: int) -> tuple[str, int]:
    """Translate a class from its opening bracket to its closing one."""
    out = ["["]
    at += 1
    if pattern[at : at + 1] == "^":
        out.append("^")
        at += 1
    # A bracket right after the opening one is a member, not the end.
    if pattern[at : at + 1] == "]":
        out.append(r"\]")
        at += 1
    while at < len(pattern):
        if pattern[at] == "\\":
            text, at = _escape(pattern, at)
        elif posix := _POSIX.match(pattern, at):
            text, at = _posix_class(posix), posix.end()
        else:
            # Python warns of what it may read as an operator of sets one day.
            text = "\\" + pattern[at] if pattern[at] in "[&|~" else pattern[at]
            at += 1
        out.append(text)
        if text == "]":
            break
    return "".join(out), at


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
