"""The functions of an operator's author: called with care, and named by file and line in errors."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

from kubewright.api.errors import ConfigurationError, KubewrightError, Remedy, TerminalError, leaves
from kubewright.api.resource import Object
from kubewright.runtime.child_value import UnfitValue, copy_value, find_fault
from kubewright.runtime.context import Context
from kubewright.runtime.failure import deepest_cause, short_path
from kubewright.runtime.result import Result
from kubewright.runtime.status import StatusValue, is_status_model

T = TypeVar("T")

MOST_CHILDREN = 10_000
"""More children of one object are taken for a generator that never ends."""


class ReconcileTimeout(KubewrightError, TimeoutError):
    """A function did not end in time and was cancelled; it is called again, later each time."""

    remedy = Remedy.RETRY


def is_timeout(error: BaseException) -> bool:
    """Tell whether a reconcile failed because its function did not end in time."""
    return any(isinstance(deepest_cause(leaf), ReconcileTimeout) for leaf in leaves(error))


def locate(function: Callable[..., Any]) -> str:
    """Say where a function is: its file, the line of its first statement or decorator, its name."""
    inner = inspect.unwrap(function)
    inner = getattr(inner, "func", inner)  # functools.partial
    name = getattr(inner, "__qualname__", type(inner).__qualname__).rpartition("<locals>.")[2]
    code = getattr(inner, "__code__", None)
    if code is None:
        return name
    return f"{short_path(code.co_filename)}:{code.co_firstlineno} in {name}"


def check_is_plain(role: str, function: Callable[..., Any]) -> None:
    """Refuse a coroutine function where a pure one is asked for.

    Raises:
        ConfigurationError: it is `async def`, and so could do what a pure function must not.
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"@operator.{role}: {locate(function)} is async: a pure function needs no await; "
            "what needs one belongs in @operator.reconcile"
        )


def list_children(value: object, function: Callable[..., Any]) -> list[Any]:
    """Return what a desired function yielded or returned, as a list.

    Raises:
        TerminalError: it is no iterable of objects, or one that does not end. None is refused too:
            to want nothing, return an empty list; a forgotten return must not delete all children.
    """
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        children = list(islice(value, MOST_CHILDREN + 1))
        if len(children) > MOST_CHILDREN:
            raise TerminalError(
                f"desired yields more than {MOST_CHILDREN} children: does it end? "
                f"({locate(function)})"
            )
        return children
    _close(value)
    hint = "yield the children, or return a list of them"
    if isinstance(value, Mapping):
        hint = "return a list with it, or yield it"
    elif value is None:
        hint = f"{hint}; to want none, return []"
    raise TerminalError(f"desired returned {_show(value)}: {hint} ({locate(function)})")


def check_result(value: object, function: Callable[..., Any]) -> Result | None:
    """Return the result of an awaited function.

    Raises:
        TypeError: it is neither a Result nor None.
    """
    if value is None or isinstance(value, Result):
        return value
    _close(value)
    raise TypeError(f"{_show(value)} was returned: return a Result or None ({locate(function)})")


def check_status(value: object, function: Callable[..., Any]) -> StatusValue:
    """Return what a status function said.

    Raises:
        TypeError: it is neither a status model, nor a dict that JSON can hold, nor None.
    """
    if value is None or is_status_model(value):
        return value
    if not isinstance(value, dict):
        _close(value)
        raise TypeError(
            f"status returned {_show(value)}: return a status model, a dict, or None to keep what "
            f"was said before ({locate(function)})"
        )
    try:
        said: Object = copy_value(value)
    except UnfitValue:
        raise TypeError(f"status.{find_fault(value)} ({locate(function)})") from None
    conditions = said.get("conditions") or []
    if not isinstance(conditions, list) or not all(
        isinstance(condition, dict) and isinstance(condition.get("type"), str)
        for condition in conditions
    ):
        raise TypeError(
            f"status.conditions: it must be a list of dicts with a type ({locate(function)})"
        )
    return said


async def call(
    function: Callable[[T, Context], Any], obj: T, ctx: Context, timeout: timedelta | None
) -> Result | None:
    """Call an asynchronous function of the author, at most for `timeout`.

    Raises:
        ReconcileTimeout: it took longer, and was cancelled.
        TypeError: it is no coroutine function, or returned no Result.
    """
    awaitable = function(obj, ctx)
    if not inspect.isawaitable(awaitable):
        raise TypeError(f"{locate(function)} is not async: write `async def`")
    if timeout is None:
        return check_result(await awaitable, function)
    try:
        async with asyncio.timeout(timeout.total_seconds()) as limit:
            result = await awaitable
    except TimeoutError:
        if not limit.expired():
            raise
        raise ReconcileTimeout(
            f"it did not end in {timeout} and was cancelled ({locate(function)}): start what takes "
            "long as a Job and look at it again, or raise the operator's reconcile_timeout"
        ) from None
    return check_result(result, function)


def _show(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _close(value: object) -> None:
    """End a coroutine that nobody will await, without a warning."""
    close = getattr(value, "close", None)
    if inspect.iscoroutine(value) and close is not None:
        close()
