from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.api.errors import BadRequest
from kubewright.local.apiserver.patch.merge_patch import apply_patch

# A busy machine may be slow: no deadline, and few examples for each run.
FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("doc", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
        ({"a": {"b": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_merges(doc: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert apply_patch(doc, patch) == expected


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([1], "error decoding patch: json: cannot unmarshal array into Go value of type map"),
        ("x", "error decoding patch: json: cannot unmarshal string into Go value of type map"),
    ],
)
def test_refuses_what_is_no_object(patch: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=f"^{message}"):
        apply_patch({}, patch)


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(0, 3), st.lists(KEYS, max_size=2)),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)


@FEW
@given(OBJECTS, OBJECTS)
def test_patching_twice_changes_no_more(doc: dict[str, Any], patch: dict[str, Any]) -> None:
    once = apply_patch(doc, patch)
    assert apply_patch(once, patch) == once
