"""Wait for a state, or see that it stays: with what was last seen in the message."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar, overload

from kubewright.api.errors import KubewrightError
from kubewright.testing.observation import describe_error, describe_state

T = TypeVar("T")

Read: TypeAlias = Callable[[], Awaitable[T] | T]
"""Reads the state, with or without await."""

Check: TypeAlias = Callable[[T], object]
"""Judges a state: by an assertion, or by what it returns, where False and None differ."""

_PAUSE_SECONDS = 0.02
# What a state that is still incomplete provokes; anything else is a fault of the test.
_PASSING_ERRORS = (AssertionError, KubewrightError, LookupError)


class _Unmet(Exception):
    """The state is not as it should be."""


class _Attempts(Generic[T]):
    """Reads and judges a state; keeps the last one and the last failure."""

    def __init__(self, read: Read[T], check: Check[T] | None) -> None:
        self.count = 0
        self.error: BaseException | None = None
        self._read = read
        self._check = check
        self._state: object = None

    async def make(self) -> T:
        """Read once and judge.

        Raises:
            _Unmet: it is not as it should be.
        """
        self.count += 1
        try:
            found = self._read()
            state: T = await found if inspect.isawaitable(found) else found
            self._state = state
            await self._judge(state)
        except _PASSING_ERRORS as error:
            self.error = error
            raise _Unmet from error
        return state

    async def _judge(self, state: T) -> None:
        if self._check is None:
            assert state, "there is nothing"
            return
        verdict = self._check(state)
        if inspect.isawaitable(verdict):
            verdict = await verdict
        # An assertion returns nothing where it holds.
        assert verdict is None or verdict, f"the check returned {verdict!r}"

    def describe(self) -> str:
        """Say what was seen last."""
        reason = "" if self.error is None else f": {describe_error(self.error)}"
        return f"{reason}\nlast seen:\n{describe_state(self._state)}"


@overload
async def eventually(
    read: Callable[[], Awaitable[T]], check: Check[T] | None = None, *, within: float = 10.0
) -> T: ...
@overload
async def eventually(
    read: Callable[[], T], check: Check[T] | None = None, *, within: float = 10.0
) -> T: ...
async def eventually(
    read: Read[Any], check: Check[Any] | None = None, *, within: float = 10.0
) -> Any:
    """Read a state again and again until it is as it should be, and return it.

    The check passes when it returns something true or nothing at all,
    and fails by an AssertionError, a LookupError or something false; without a check the state
    itself must be true. Errors of the API server while reading count as "not yet". Any other
    exception is a fault of the test and passes through.

        pool = await eventually(
            lambda: client.get(Memcached, "pool", namespace="default"),
            lambda pool: pool.status.ready_replicas == 3,
        )

    Arguments:
        read: reads the state, with or without await.
        check: judges what was read.
        within: seconds of real time.

    Raises:
        AssertionError: it did not become so; the message holds the last failure, and the last
            state as YAML.
    """
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    attempts = _Attempts(read, check)
    while True:
        try:
            return await attempts.make()
        except _Unmet:
            if loop.time() >= deadline:
                tries = f"not within {within:g} s ({attempts.count} tries)"
                raise AssertionError(tries + attempts.describe()) from attempts.error
        await asyncio.sleep(_PAUSE_SECONDS)


@overload
async def consistently(
    read: Callable[[], Awaitable[T]], check: Check[T] | None = None, *, during: float = 0.5
) -> T: ...
@overload
async def consistently(
    read: Callable[[], T], check: Check[T] | None = None, *, during: float = 0.5
) -> T: ...
async def consistently(
    read: Read[Any], check: Check[Any] | None = None, *, during: float = 0.5
) -> Any:
    """Read a state again and again and see that it stays as it should be; return the last one.

    A test that nothing happens can only fail where
    something would have happened in the time: choose it accordingly.

    Arguments:
        read: as for `eventually`.
        check: as for `eventually`.
        during: seconds of real time.

    Raises:
        AssertionError: it changed; the message holds the failure, and the state as YAML.
    """
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    began = loop.time()
    attempts = _Attempts(read, check)
    while True:
        try:
            state = await attempts.make()
        except _Unmet:
            when = f"not so after {loop.time() - began:.2f} s"
            raise AssertionError(when + attempts.describe()) from attempts.error
        if loop.time() - began >= during:
            return state
        await asyncio.sleep(_PAUSE_SECONDS)
