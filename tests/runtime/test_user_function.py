"""What an author's function returns is looked at, and the function is named by file and line."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from kubewright.api.errors import ConfigurationError, Remedy, TerminalError
from kubewright.api.resource import Object
from kubewright.runtime.context import Context
from kubewright.runtime.failure import describe
from kubewright.runtime.result import Result
from kubewright.runtime.user_function import (
    ReconcileTimeout,
    call,
    check_is_plain,
    check_result,
    check_status,
    list_children,
    locate,
)

NO_CONTEXT = cast("Context", None)


def pure(obj: object) -> list[Object]:
    return []


async def waits(obj: object, ctx: Context) -> None:
    await asyncio.sleep(60)


async def yields(obj: object) -> AsyncIterator[Object]:
    yield {}


def test_a_function_is_named_by_folder_file_and_line() -> None:
    line = pure.__code__.co_firstlineno
    assert locate(pure) == f"runtime/test_user_function.py:{line} in pure"
    assert locate(functools.partial(pure)) == locate(pure)


def test_an_error_is_named_by_the_authors_line() -> None:
    def broken() -> None:
        raise KeyError("size")

    with pytest.raises(KeyError) as caught:
        broken()
    place = f"(runtime/test_user_function.py:{broken.__code__.co_firstlineno + 1} in broken)"
    assert describe(caught.value) == f"KeyError: 'size' {place}"


@pytest.mark.parametrize("function", [waits, yields])
def test_a_pure_function_must_not_be_async(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="is async: a pure function needs no await"):
        check_is_plain("desired", function)


def test_lists_what_is_yielded_or_returned() -> None:
    def children() -> Iterator[Object]:
        yield {"kind": "A"}

    assert list_children(children(), pure) == [{"kind": "A"}]
    assert list_children(({"kind": "A"},), pure) == [{"kind": "A"}]
    assert list_children([], pure) == []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "desired returned None: yield .* to want none, return \\[\\]"),
        ("x", "desired returned a str"),
        ({"kind": "A"}, "desired returned a dict: return a list with it"),
        (5, "desired returned a int"),
    ],
)
def test_refuses_what_is_no_list_of_children(value: Any, says: str) -> None:
    with pytest.raises(TerminalError, match=says + ".*test_user_function.py:"):
        list_children(value, pure)


def test_a_generator_that_never_ends_is_stopped() -> None:
    with pytest.raises(TerminalError, match=r"more than 10000 children: does it end\? .*in pure"):
        list_children(itertools.repeat({"kind": "A"}), pure)


def test_a_coroutine_is_refused_and_closed() -> None:
    with pytest.raises(TerminalError, match="returned a coroutine"):
        list_children(waits(None, NO_CONTEXT), pure)


@pytest.mark.parametrize("value", [5, timedelta(seconds=1), True])
def test_a_result_is_a_result_or_none(value: object) -> None:
    with pytest.raises(TypeError, match=r"return a Result or None .*test_user_function.py:"):
        check_result(value, pure)
    assert check_result(None, pure) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("ready", "status returned a str"),
        ([], "status returned a list"),
        ({"nodes": {1}}, "status.nodes: a set is no JSON"),
        ({"conditions": "Ready"}, "status.conditions: it must be a list"),
        ({"conditions": [{"status": "True"}]}, "status.conditions"),
    ],
)
def test_a_status_that_is_none_is_refused_by_field(value: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says + ".*test_user_function.py:"):
        check_status(value, pure)


def test_a_status_model_class_is_no_status() -> None:
    class Model:
        def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> Object:
            return {}

    with pytest.raises(TypeError, match="return a status model"):
        check_status(Model, pure)
    model = Model()
    assert check_status(model, pure) is model


async def test_a_function_that_hangs_is_cancelled_and_named() -> None:
    with pytest.raises(ReconcileTimeout, match=r"did not end in 0:00:00.01.*in waits") as caught:
        await call(waits, None, NO_CONTEXT, timedelta(milliseconds=10))
    assert caught.value.remedy is Remedy.RETRY


async def test_a_timeout_of_its_own_stays_its_own() -> None:
    async def dials(obj: object, ctx: Context) -> None:
        raise TimeoutError("no database")

    with pytest.raises(TimeoutError, match="no database"):
        await call(dials, None, NO_CONTEXT, timedelta(seconds=10))


async def test_a_function_that_is_not_async_is_told_to_be() -> None:
    def day2(obj: object, ctx: Context) -> Result:
        return Result()

    with pytest.raises(TypeError, match="day2 is not async: write `async def`"):
        await call(day2, None, NO_CONTEXT, None)
