"""The typed literals of mutating policies, written as maps for an evaluator without such types.

`Object{spec: Object.spec{a: 1}}` becomes `dyn({'spec': dyn({'a': 1})})`; `JSONPatch{…}` likewise.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<string>[bB]?[rR]?(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}"""
    r"""|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"""|(?P<type>\b(?:Object(?:\s*\.\s*\w+)*|JSONPatch)\s*\{)"""
    r"""|(?P<key>(?:\?\s*)?[A-Za-z_]\w*)(?=\s*:)"""
    r"""|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL,
)
_TYPED, _PLAIN = "typed", "plain"


def as_maps(text: str) -> str:
    """Return an expression whose typed literals are maps with their field names as keys."""
    if "Object" not in text and "JSONPatch" not in text:
        return text
    written: list[str] = []
    open_brackets: list[str] = []
    at_key = False
    for match in _TOKEN.finditer(text):
        part, what = match.group(), match.lastgroup
        if what == "type" and not _follows_dot(written):
            # Two objects of one type hold values of different types: none is told to the compiler.
            written.append("dyn({")
            open_brackets.append(_TYPED)
            at_key = True
            continue
        if what == "type":
            open_brackets.append(_PLAIN)
        if what == "key" and at_key and open_brackets[-1:] == [_TYPED]:
            optional, name = part.startswith("?"), part.lstrip("?").strip()
            part = f"{'?' if optional else ''}'{name}'"
        elif what == "other":
            part = _follow(part, open_brackets)
        if not part.isspace():
            at_key = part == "," and open_brackets[-1:] == [_TYPED]
        written.append(part)
    return "".join(written)


def _follow(part: str, open_brackets: list[str]) -> str:
    """Keep count of the brackets and return what is written for this one."""
    if part in "([{":
        open_brackets.append(_PLAIN)
    elif part in ")]}" and open_brackets and open_brackets.pop() == _TYPED:
        return part + ")"
    return part


def _follows_dot(written: list[str]) -> bool:
    """Tell whether a name is a field of something, as `x.Object`."""
    return bool(written) and written[-1] == "."
