"""JSON pointers into answers, with the words that tests of lists need."""

from __future__ import annotations

from typing import Any


def find_value(document: Any, pointer: str) -> Any:
    """Return the value at a pointer; None where it leads nowhere.

    In a list, a number is an index (-1 the last), `#` the length, and `KEY=VALUE` the first item
    that has it; dots in KEY lead deeper.
    """
    value = document
    for part in _parts(pointer):
        if isinstance(value, list):
            value = _find_in_list(value, part)
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def find_values(document: Any, pointer: str) -> Any:
    """Return the value at a pointer; where it has a `*`, a list of the values of each item."""
    head, star, rest = pointer.partition("/*")
    value = find_value(document, head)
    return [find_values(item, rest) for item in value or []] if star else value


def remove_value(document: Any, pointer: str) -> None:
    """Take out what a pointer names; a `*` stands for each key or item."""
    *path, leaf = _parts(pointer)
    found = [document]
    for part in path:
        found = [child for value in found for child in _children(value, part)]
    for value in found:
        if isinstance(value, dict) and leaf == "*":
            value.clear()
        elif isinstance(value, dict):
            value.pop(leaf, None)


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _find_in_list(items: list[Any], part: str) -> Any:
    if part == "#":
        return len(items)
    key, equals, wanted = part.partition("=")
    if equals:
        path = "/" + key.replace(".", "/")
        matching = (
            item
            for item in items
            if isinstance(item, dict) and str(find_value(item, path)) == wanted
        )
        return next(matching, None)
    if not part.lstrip("-").isdigit():
        return None
    index = int(part)
    return items[index] if -len(items) <= index < len(items) else None


def _children(value: Any, part: str) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values()) if part == "*" else [value[part]] if part in value else []
    if isinstance(value, list):
        if part == "*":
            return list(value)
        if part.isdigit() and int(part) < len(value):
            return [value[int(part)]]
    return []
