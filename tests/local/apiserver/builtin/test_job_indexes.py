from __future__ import annotations

import pytest

from kubewright.local.apiserver.builtin.job_indexes import (
    IndexesError,
    count_indexes,
    find_overlap,
)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("0", 1), ("0,2-4", 4), ("0-4", 5)])
def test_indexes_are_counted(text: str, count: int) -> None:
    assert count_indexes(text, 5) == count


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("5", 'too large index: "5"'),
        ("0-5", 'too large index: "5"'),
        ("x", 'cannot convert string to integer for index: "x"'),
        ("1-", 'cannot convert string to integer for index: ""'),
        ("1,1", "non-increasing order, previous: 1, current: 1"),
        ("2-1", "non-increasing order, previous: 2, current: 1"),
        ("0-3,2", "non-increasing order, previous: 3, current: 2"),
    ],
)
def test_what_is_no_list_of_indexes_is_refused(text: str, fault: str) -> None:
    with pytest.raises(IndexesError, match=f"^{fault}$"):
        count_indexes(text, 5)


@pytest.mark.parametrize(
    ("one", "other", "index"),
    [("0-2", "3,4", None), ("0-2,4", "1,4", 1), ("4", "0-4", 4), ("x", "0", None), ("", "0", None)],
)
def test_an_index_has_one_fate(one: str, other: str, index: int | None) -> None:
    assert find_overlap(one, other, 5) == index
