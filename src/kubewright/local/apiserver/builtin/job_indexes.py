"""Completion indexes as a Job's status and success policy write them: `0,2-5`."""

from __future__ import annotations

import re

from kubewright.local.apiserver.field_error import show

_NUMBER = re.compile(r"[+-]?\d+")


class IndexesError(ValueError):
    """A text is no list of indexes; the message is the API server's."""


def count_indexes(text: str, completions: int) -> int:
    """Count the indexes of a text.

    Raises:
        IndexesError: it is none, is not in order, or names an index that the Job does not have.
    """
    return sum(last - first + 1 for first, last in parse_indexes(text, completions))


def parse_indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the intervals of a text, first and last included.

    Raises:
        IndexesError: see `count_indexes`.
    """
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        first, last = _parse_interval(part, completions)
        if intervals and intervals[-1][1] >= first:
            raise _disorder(intervals[-1][1], first)
        intervals.append((first, last))
    return intervals


def _parse_interval(part: str, completions: int) -> tuple[int, int]:
    limits = part.split("-")
    if len(limits) > 2:
        rule = "the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexesError(f"the fragment {show(part)} violates {rule}")
    numbers = [_parse_index(limit, completions) for limit in limits]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise _disorder(*numbers)
    return numbers[0], numbers[-1]


def _parse_index(text: str, completions: int) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise IndexesError(f"cannot convert string to integer for index: {show(text)}")
    if int(text) >= completions:
        raise IndexesError(f"too large index: {show(text)}")
    return int(text)


def _disorder(previous: int, current: int) -> IndexesError:
    return IndexesError(f"non-increasing order, previous: {previous}, current: {current}")


def find_overlap(one: str, other: str, completions: int) -> int | None:
    """Return the first index that two texts share; None if none, or where one is no list."""
    try:
        left, right = parse_indexes(one, completions), parse_indexes(other, completions)
    except IndexesError:
        return None
    shared = [max(a, c) for a, b in left for c, d in right if a <= d and c <= b]
    return min(shared, default=None)
