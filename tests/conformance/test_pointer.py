from __future__ import annotations

from typing import Any

import pytest

from conformance.pointer import find_value, find_values, remove_value

DOCUMENT: dict[str, Any] = {
    "metadata": {"labels": {"a/b": "1", "c~d": "2"}},
    "items": [
        {"type": "Ready", "status": "True", "meta": {"name": "x"}},
        {"type": "Stalled", "status": "False", "meta": {"name": "y"}},
    ],
}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/metadata/labels/a~1b", "1"),
        ("/metadata/labels/c~0d", "2"),
        ("/items/0/type", "Ready"),
        ("/items/-1/type", "Stalled"),
        ("/items/#", 2),
        ("/items/type=Stalled/status", "False"),
        ("/items/meta.name=x/type", "Ready"),
    ],
)
def test_a_pointer_finds_its_value(pointer: str, value: object) -> None:
    assert find_value(DOCUMENT, pointer) == value


@pytest.mark.parametrize(
    "pointer", ["/nothing/below", "/items/7", "/items/-3", "/items/type=No/status", "/items/word"]
)
def test_a_pointer_that_leads_nowhere_finds_none(pointer: str) -> None:
    assert find_value(DOCUMENT, pointer) is None


def test_a_star_finds_the_value_of_each_item() -> None:
    assert find_values(DOCUMENT, "/items/*/meta/name") == ["x", "y"]
    assert find_values(DOCUMENT, "/nothing/*/meta") == []


def test_what_a_pointer_names_is_removed_from_each_item() -> None:
    document = {"items": [{"a": 1, "b": 2}, {"a": 3}, "text"], "m": {"x": {"a": 4}}}
    remove_value(document, "/items/*/a")
    remove_value(document, "/m/*")
    remove_value(document, "/no/where")
    assert document == {"items": [{"b": 2}, {}, "text"], "m": {}}
