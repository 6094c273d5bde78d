from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.local.controllers.job.indexes import Indexes

numbers = st.sets(st.integers(0, 40))


def build(numbers: set[int]) -> Indexes:
    return Indexes().with_indexes(numbers)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        (set(), ""),
        ({3}, "3"),
        ({3, 4}, "3,4"),
        ({3, 4, 5}, "3-5"),
        ({0, 2, 3, 7, 8, 9}, "0,2,3,7-9"),
    ],
)
def test_ranges_begin_at_three(numbers: set[int], text: str) -> None:
    assert str(build(numbers)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-9", "0-4"),
        ("0,7", "0"),
        ("x,1,2-y,3", "1,3"),
        ("1,2,3", "1-3"),
        ("-1,2", "2"),
        ("", ""),
    ],
)
def test_reading_leaves_out_what_is_no_index_of_the_job(text: str, expected: str) -> None:
    assert str(Indexes.parse(text, 5)) == expected


@given(numbers)
def test_what_is_written_is_read_again(numbers: set[int]) -> None:
    assert Indexes.parse(str(build(numbers)), 41) == build(numbers)


@given(numbers, numbers)
def test_it_is_a_set(one: set[int], other: set[int]) -> None:
    indexes = build(one)
    assert len(indexes) == len(one)
    assert {n for n in range(45) if n in indexes} == one
    assert indexes.union(build(other)) == build(one | other)
    assert indexes.count_shared(build(other)) == len(one & other)
    assert list(indexes.missing(30)) == [n for n in range(30) if n not in one]
