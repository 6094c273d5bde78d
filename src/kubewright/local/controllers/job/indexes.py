"""Completion indexes in the compressed form of a Job's status: `0,2-5,9`. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import msgspec

Interval = tuple[int, int]
"""First and last index, both included."""


class Indexes(msgspec.Struct, frozen=True):
    """A set of indexes as ordered intervals that do not touch: its cost is that of its text."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> Indexes:
        """Read the text of a status or of a success policy.

        Indexes of `completions` and above are left out: an Indexed Job may be scaled down. What is
        no number is left out too, as the status may have been written by anybody.
        """
        intervals = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            if not first.isdecimal() or not (last or first).isdecimal():
                continue
            if int(first) < completions:
                intervals.append((int(first), min(int(last or first), completions - 1)))
        return cls(_merge(intervals))

    def with_indexes(self, indexes: Iterable[int]) -> Indexes:
        """Return these indexes and others."""
        return self.union(Indexes(tuple((index, index) for index in set(indexes))))

    def union(self, other: Indexes) -> Indexes:
        """Return the indexes of both."""
        return Indexes(_merge([*self.intervals, *other.intervals]))

    def count_shared(self, other: Indexes) -> int:
        """Count the indexes that both have."""
        ours, theirs = list(self.intervals), list(other.intervals)
        shared = 0
        while ours and theirs:
            (first, last), (their_first, their_last) = ours[0], theirs[0]
            shared += max(min(last, their_last) - max(first, their_first) + 1, 0)
            (ours if last <= their_last else theirs).pop(0)
        return shared

    def missing(self, completions: int) -> Iterator[int]:
        """Yield the indexes below `completions` that are not in the set, in order."""
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, completions))
            candidate = last + 1
        yield from range(candidate, completions)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        place = bisect_left(self.intervals, index, key=lambda interval: interval[1])
        return place < len(self.intervals) and self.intervals[place][0] <= index

    def __str__(self) -> str:
        return ",".join(_write(first, last) for first, last in self.intervals)


def _write(first: int, last: int) -> str:
    if first == last:
        return str(first)
    # Two neighbours are listed, as the real controller writes them; a range begins at three.
    return f"{first}{',' if last == first + 1 else '-'}{last}"


def _merge(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if last < first:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
