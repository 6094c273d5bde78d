"""Environment files (KEP-3721): lines `NAME='value'`, where a value may go over several lines."""

from __future__ import annotations


class EnvFileError(ValueError):
    """An environment file is not well-formed."""


def read_variable(text: str, key: str) -> str:
    """Return the value of a variable in an environment file; "" if it is not there.

    What comes after the variable is not looked at.

    Raises:
        EnvFileError: a line before it is none that the format knows.
    """
    lines = iter(text.splitlines())
    for line in lines:
        line = line.lstrip(" \t")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name or name != name.rstrip(" \t"):
            raise EnvFileError(f"not NAME='value': {line}")
        if value[:1] in (" ", "\t", ""):
            if name == key and value:
                return ""
            if value:
                continue
        if not value.startswith("'"):
            raise EnvFileError(f"the value of {name} must be in single quotes")
        parts, (part, quote, rest) = [], value[1:].partition("'")
        while not quote:
            parts.append(part)
            following = next(lines, None)
            if following is None:
                raise EnvFileError(f"the value of {name} has no end")
            part, quote, rest = following.partition("'")
        rest = rest.lstrip(" \t")
        if rest and not rest.startswith("#"):
            raise EnvFileError(f"something follows the value of {name}")
        if name == key:
            return "\n".join([*parts, part])
    return ""
