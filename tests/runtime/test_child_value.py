"""Values of children are copied as JSON has them, or refused by path."""

from __future__ import annotations

import enum
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.api.quantity import Quantity
from kubewright.runtime.child_value import UnfitValue, copy_value, find_fault


class Mode(enum.StrEnum):
    FAST = "fast"


class Level(enum.IntEnum):
    ONE = 1


async def wait() -> None:
    return None


def test_copies_deeply_without_what_is_none() -> None:
    inner = {"a": 1, "b": None}
    value = {"x": inner, "y": (1, 2.5, None), "z": None}
    copied = copy_value(value)
    assert copied == {"x": {"a": 1}, "y": [1, 2.5, None]}
    copied["x"]["a"] = 2
    assert inner["a"] == 1


def test_enums_and_quantities_become_their_text() -> None:
    value = {Mode.FAST: Mode.FAST, "level": Level.ONE, "cpu": Quantity("1000m")}
    copied = copy_value(value)
    assert copied == {"fast": "fast", "level": 1, "cpu": "1"}
    assert {type(key) for key in copied} == {str}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "a datetime is no JSON: write it as text"),
        ({1, 2}, "a set is no JSON: write sorted"),
        (b"x", "a bytes is no JSON: decode it"),
        (math.nan, "nan is a number that JSON cannot hold"),
        (math.inf, "inf is a number"),
        (1 << 70, "is a number that JSON cannot hold"),
        (object(), "a object is no JSON"),
        ({5: "x"}, "the key 5 is no text: write it as '5'"),
    ],
)
def test_names_the_path_of_what_is_no_json(value: Any, says: str) -> None:
    child = {"spec": {"items": [{"ok": 1}, {"bad": value}]}}
    with pytest.raises(UnfitValue):
        copy_value(child)
    assert find_fault(child).startswith("spec.items[1].bad: ")
    assert says in find_fault(child)


def test_a_coroutine_is_told_to_be_one() -> None:
    unawaited = wait()
    assert "was not awaited" in find_fault({"data": unawaited})
    unawaited.close()
