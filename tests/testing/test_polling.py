"""Waiting for a state, and what a failure says."""

from __future__ import annotations

import asyncio
import itertools

import pytest

import kubewright as kw
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.testing import consistently, eventually
from tests.testing.objects import build_config_map


async def test_eventually_returns_the_state_that_holds() -> None:
    numbers = itertools.count()

    assert await eventually(lambda: next(numbers), lambda number: number >= 3) == 3


async def test_assertions_missing_fields_and_api_errors_mean_not_yet() -> None:
    numbers = itertools.count()

    async def read() -> dict[str, int]:
        number = next(numbers)
        if number == 0:
            raise NotFound("no such object")
        return {"size": number} if number > 1 else {}

    def is_large(state: dict[str, int]) -> None:
        assert state["size"] > 2

    assert await eventually(read, is_large) == {"size": 3}


async def test_a_fault_of_the_test_is_not_waited_for() -> None:
    def misspelt(number: int) -> None:
        raise AttributeError("no such method")

    with pytest.raises(AttributeError):
        await eventually(lambda: 1, misspelt)


async def test_a_failure_shows_the_assertion_and_the_object_as_yaml() -> None:
    seen = build_config_map("ns", word="a")
    seen["metadata"]["managedFields"] = [{"manager": "noise"}]

    def has_word(obj: Object) -> None:
        assert obj["data"]["word"] == "b"

    with pytest.raises(AssertionError) as failure:
        await eventually(lambda: seen, has_word, within=0.05)

    text = str(failure.value)
    assert text.startswith("not within 0.05 s (")
    assert "AssertionError: assert 'a' == 'b'" in text
    assert "    kind: ConfigMap\n    metadata:\n      name: settings\n" in text
    assert "noise" not in text


async def test_a_failure_shows_lists_of_objects_one_by_one() -> None:
    seen = [build_config_map("ns", "one"), build_config_map("ns", "two")]

    with pytest.raises(AssertionError) as failure:
        await eventually(lambda: seen, lambda found: len(found) == 3, within=0)

    text = str(failure.value)
    assert "the check returned False" in text
    assert text.index("name: one") < text.index("---") < text.index("name: two")


async def test_without_a_check_the_state_itself_must_be_true() -> None:
    with pytest.raises(AssertionError, match=r"there is nothing[\s\S]*an empty list"):
        await eventually(list[kw.Object], within=0)


async def test_consistently_fails_at_the_first_change() -> None:
    numbers = itertools.count()
    loop = asyncio.get_running_loop()
    began = loop.time()

    with pytest.raises(AssertionError, match=r"not so after [\s\S]*last seen:\n    2"):
        await consistently(lambda: next(numbers), lambda number: number < 2, during=60)

    assert loop.time() - began < 5


async def test_consistently_watches_for_the_whole_time() -> None:
    numbers = itertools.count()

    assert await consistently(lambda: next(numbers), lambda number: number >= 0, during=0.1) > 1
