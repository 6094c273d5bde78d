"""A patch says what a function changed, and keeps what its model does not know."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.webhook.json_patch import build_patch, carry_over

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "a/b", "c~d"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "a/b", "c~d", ""]), inner, max_size=3)
    ),
    max_leaves=10,
)
documents = st.dictionaries(st.sampled_from(["x", "y", "x/y", "~"]), json_values, max_size=4)


@given(documents, documents)
def test_a_patch_leads_from_one_document_to_the_other(old: Any, new: Any) -> None:
    assert jsonpatch.apply_patch(old, build_patch(old, new)) == new


@given(documents, documents)
def test_where_the_model_knows_everything_the_change_is_the_new_state(
    before: Any, after: Any
) -> None:
    assert carry_over(before, before, after) == after


@pytest.mark.parametrize(
    ("live", "before", "after", "expected"),
    [
        # A default that only the model shows is not written.
        ({"size": 1}, {"size": 1, "shown": 0}, {"size": 2, "shown": 0}, {"size": 2}),
        # A field that the model does not know stays.
        ({"a": 1, "more": 2}, {"a": 1}, {"a": 3}, {"a": 3, "more": 2}),
        # A change below a container that only the model shows brings the container.
        ({}, {"box": {"a": 1}}, {"box": {"a": 2}}, {"box": {"a": 2}}),
        # A field that is taken away goes.
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"b": 2}, {"b": 2}),
        # Items keep what the model does not know of them, changed or moved.
        (
            {"l": [{"n": 1, "x": 1}, {"n": 2, "x": 2}]},
            {"l": [{"n": 1}, {"n": 2}]},
            {"l": [{"n": 1}, {"n": 3}]},
            {"l": [{"n": 1, "x": 1}, {"n": 3, "x": 2}]},
        ),
        (
            {"l": [{"n": 1, "x": 1}]},
            {"l": [{"n": 1}]},
            {"l": [{"n": 0}, {"n": 1}]},
            {"l": [{"n": 0}, {"n": 1, "x": 1}]},
        ),
    ],
)
def test_only_what_changed_is_carried_over(
    live: Any, before: Any, after: Any, expected: Any
) -> None:
    assert carry_over(live, before, after) == expected
