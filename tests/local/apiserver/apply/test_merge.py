from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.local.apiserver.apply.compare import compare_values
from kubewright.local.apiserver.apply.merge import merge_values, remove_fields
from kubewright.local.apiserver.apply.typed_value import build_field_set, validate_value

from .widget import WIDGET, Store, fields, widget

# A busy machine may be slow: no deadline, and few examples for each run.
FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WORDS = st.sampled_from(["a", "b", "c", "d"])
FREE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)
PORTS = st.lists(
    st.builds(
        lambda port, name: {"port": port, **({"name": name} if name else {})},
        st.integers(1, 4),
        st.one_of(st.none(), WORDS),
    ),
    max_size=3,
    unique_by=lambda port: port["port"],
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "color": WORDS,
        "size": st.integers(0, 2),
        "tags": st.lists(WORDS, max_size=4, unique=True),
        "atoms": st.lists(WORDS, max_size=2),
        "sel": st.dictionaries(WORDS, WORDS, max_size=2),
        "ports": PORTS,
        "free": FREE,
    },
)


def objects() -> st.SearchStrategy[dict[str, Any]]:
    return SPECS.map(lambda spec: {**widget(), "spec": spec})


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("ab", "ca", "cab"),
        ("abc", "ca", "bca"),
        ("abc", "b", "abc"),
        ("abc", "cba", "cba"),
        ("ab", "xby", "axby"),
        ("abcd", "dxa", "bcdxa"),
        ("", "ab", "ab"),
        ("aab", "b", "aab"),
    ],
)
def test_orders_items_by_both_lists(live: str, config: str, merged: str) -> None:
    old, new = widget(tags=list(live)), widget(tags=list(config))
    assert merge_values(old, new, WIDGET)["spec"]["tags"] == list(merged)


@FEW
@given(objects(), objects())
def test_merge_contains_the_configuration(live: dict[str, Any], config: dict[str, Any]) -> None:
    merged = merge_values(live, config, WIDGET)
    assert validate_value(merged, WIDGET) == []
    assert not compare_values(merged, config, WIDGET).written
    assert merge_values(merged, config, WIDGET) is merged


@FEW
@given(objects(), objects())
def test_applying_twice_changes_no_more(first: dict[str, Any], second: dict[str, Any]) -> None:
    store = Store()
    store.update("creator", first)
    once = store.apply("m", second, force=True)
    assert store.apply("m", second, force=True) == once


@FEW
@given(objects())
def test_merge_with_itself_is_itself(obj: dict[str, Any]) -> None:
    assert merge_values(obj, obj, WIDGET) is obj
    assert not compare_values(obj, obj, WIDGET).written


@FEW
@given(objects(), objects())
def test_comparison_mirrors(left: dict[str, Any], right: dict[str, Any]) -> None:
    there = compare_values(left, right, WIDGET)
    back = compare_values(right, left, WIDGET)
    assert there.added == back.removed
    assert there.removed == back.added
    assert there.modified == back.modified


@FEW
@given(objects())
def test_new_object_adds_all_that_it_holds(obj: dict[str, Any]) -> None:
    added = compare_values({}, obj, WIDGET).added
    assert not build_field_set(obj, WIDGET).difference(added)


@FEW
@given(objects())
def test_removing_everything_leaves_nothing_owned(obj: dict[str, Any]) -> None:
    held = build_field_set(obj, WIDGET).with_named_fields(WIDGET)
    rest = remove_fields(obj, held, WIDGET)
    assert not build_field_set(rest, WIDGET).intersection(held)


def test_removal_of_the_last_item_leaves_null() -> None:
    obj = widget(tags=["a"], color="red")
    assert remove_fields(obj, fields('f:spec/f:tags/v:"a"'), WIDGET)["spec"] == {
        "tags": None,
        "color": "red",
    }


def test_removal_inside_an_atomic_list_removes_it() -> None:
    obj = widget(atoms=["a", "b"], color="red")
    assert remove_fields(obj, fields("f:spec/f:atoms/i:0"), WIDGET)["spec"]["atoms"] is None


def test_duplicates_in_a_live_set_are_compared_as_one() -> None:
    changed = compare_values(widget(tags=["a", "a"]), widget(tags=["a"]), WIDGET)
    assert changed.removed == fields('f:spec/f:tags/v:"a"')
    assert changed.added == fields('f:spec/f:tags/v:"a"')
