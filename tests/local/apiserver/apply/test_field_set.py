from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.local.apiserver.apply.field_set import FieldSet, Tree, display_path
from kubewright.local.apiserver.apply.path_element import (
    PathElementError,
    display_element,
    parse_element,
)

from .widget import WIDGET, fields

# A busy machine may be slow: no deadline, and few examples for each run.
FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ELEMENTS = st.sampled_from(
    ["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80,"protocol":"TCP"}', 'v:"s"', "v:1", "i:0"]
)
PATHS = st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple)
SETS = st.lists(PATHS, max_size=12).map(FieldSet.of)


def paths(of: FieldSet) -> set[tuple[str, ...]]:
    return set(of)


@FEW
@given(SETS)
def test_survives_the_wire(owned: FieldSet) -> None:
    assert FieldSet.from_fields(owned.to_fields()) == owned


@FEW
@given(SETS, SETS)
def test_algebra_is_that_of_sets_of_paths(left: FieldSet, right: FieldSet) -> None:
    assert paths(left.union(right)) == paths(left) | paths(right)
    assert paths(left.difference(right)) == paths(left) - paths(right)
    assert paths(left.intersection(right)) == paths(left) & paths(right)
    below = {
        path
        for path in paths(left)
        if any(right.has(path[:length]) for length in range(1, len(path) + 1))
    }
    assert paths(left.recursive_difference(right)) == paths(left) - below


@FEW
@given(SETS, SETS)
def test_equal_sets_have_one_form(left: FieldSet, right: FieldSet) -> None:
    assert left.union(right).to_fields() == right.union(left).to_fields()
    assert left.difference(right).union(left.intersection(right)) == left
    assert list(left.union(right).to_fields()) == list(right.union(left).to_fields())


@FEW
@given(SETS)
def test_leaves_have_nothing_below(owned: FieldSet) -> None:
    for path in owned.leaves():
        assert not any(other != path and other[: len(path)] == path for other in owned)


def test_writes_fields_before_keys_before_values() -> None:
    owned = fields('v:"b"', "f:z", 'k:{"a":10}', "f:a/f:b", "f:a", 'k:{"a":9}', "v:2", 'v:"a"')
    assert list(owned.to_fields()) == [
        "f:a",
        "f:z",
        'k:{"a":9}',
        'k:{"a":10}',
        "v:2",
        'v:"a"',
        'v:"b"',
    ]
    assert owned.to_fields()["f:a"] == {".": {}, "f:b": {}}


def test_names_fields_on_the_way_that_are_declared() -> None:
    owned = fields("f:metadata/f:labels/f:x", "f:spec/f:free/f:m/f:a")
    assert paths(owned.with_named_fields(WIDGET)) == {
        ("f:metadata",),
        ("f:metadata", "f:labels"),
        ("f:metadata", "f:labels", "f:x"),
        ("f:spec",),
        ("f:spec", "f:free"),
        ("f:spec", "f:free", "f:m", "f:a"),
    }


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("f:a b", "f:a b"),
        ('k:{ "b": 1, "a": "x" }', 'k:{"a":"x","b":1}'),
        ("v: 1.0", "v:1"),
        ('v:"<"', 'v:"\\u003c"'),
        ("i:007", "i:7"),
    ],
)
def test_reads_elements_into_one_form(text: str, canonical: str) -> None:
    assert parse_element(text) == canonical


@pytest.mark.parametrize("text", ["", "f", "fa", "x:a", "k:1", "k:{", "i:x"])
def test_refuses_what_is_no_element(text: str) -> None:
    with pytest.raises(PathElementError):
        parse_element(text)


@pytest.mark.parametrize("fields_v1", [{"f:a": 1}, {"k:{": {}}, {"name": {}}])
def test_refuses_fields_that_cannot_be_read(fields_v1: dict[str, Any]) -> None:
    with pytest.raises(PathElementError):
        FieldSet.from_fields(fields_v1)


def test_passes_over_elements_of_unknown_kinds() -> None:
    tree: Tree = {"x:new": {}, "f:a": {}}
    assert FieldSet.from_fields(tree) == fields("f:a")


def test_displays_paths_as_messages_do() -> None:
    path = ("f:spec", 'k:{"port":80,"protocol":"TCP"}', "f:name")
    assert display_path(path) == '.spec[port=80,protocol="TCP"].name'
    assert display_element('v:"x"') == '[="x"]'
    assert display_element("i:3") == "[3]"
