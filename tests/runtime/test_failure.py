"""What an error means to a controller, and what it says to people."""

from __future__ import annotations

import pytest

from kubewright.api.errors import (
    Conflict,
    Invalid,
    NotFound,
    Remedy,
    StatusDetails,
    TerminalError,
    TooManyRequests,
)
from kubewright.runtime.failure import (
    deepest_cause,
    describe,
    is_passing,
    remedy_of,
    retry_after,
)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (KeyError("x"), Remedy.RETRY),
        (Conflict("c"), Remedy.REREAD),
        (NotFound("n"), Remedy.REREAD),
        (Invalid("i"), Remedy.WAIT_FOR_CHANGE),
        (TerminalError("t"), Remedy.WAIT_FOR_CHANGE),
        (ExceptionGroup("g", [Invalid("i"), TerminalError("t")]), Remedy.WAIT_FOR_CHANGE),
        (ExceptionGroup("g", [Invalid("i"), Conflict("c")]), Remedy.REREAD),
        (ExceptionGroup("g", [Invalid("i"), OSError("o")]), Remedy.RETRY),
    ],
)
def test_remedies(error: Exception, remedy: Remedy) -> None:
    assert remedy_of(error) is remedy


def test_the_servers_wish_counts_also_inside_a_group() -> None:
    busy = TooManyRequests("busy", StatusDetails(retry_after_seconds=7))
    assert retry_after(ExceptionGroup("g", [KeyError("x"), busy])) == 7


def test_the_deepest_cause_is_told_in_full() -> None:
    cause = Invalid('Service "a" is invalid: spec.ports: Required value')
    outer = RuntimeError("reconcile failed")
    outer.__cause__ = ExceptionGroup("children", [cause])
    assert deepest_cause(outer) is cause
    assert describe(outer) == 'Service "a" is invalid: spec.ports: Required value'


def test_a_bare_error_is_told_with_its_class() -> None:
    assert describe(KeyError("size")) == "KeyError: 'size'"
    assert describe(AssertionError()) == "AssertionError"


def test_several_causes_are_told_each_once() -> None:
    group = ExceptionGroup("g", [Invalid("one"), Invalid("two"), Invalid("one")])
    assert describe(group) == "one; two"


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert deepest_cause(one) is two


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (Conflict("changed"), True),
        (TooManyRequests("slow down"), True),
        (ConnectionRefusedError("the database is away"), True),
        (TimeoutError("no answer"), True),
        (ValueError("a bug"), False),
        (TerminalError("cannot be"), False),
        (ExceptionGroup("two", [Conflict("changed"), ValueError("a bug")]), False),
        (ExceptionGroup("two", [Conflict("changed"), TimeoutError("late")]), True),
    ],
)
def test_what_heals_by_itself_is_told_from_what_stays(error: Exception, passing: bool) -> None:
    assert is_passing(error) is passing
