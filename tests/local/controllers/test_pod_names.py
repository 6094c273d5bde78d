from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from kubewright.local.controllers.replicaset.pod_names import PodNames

indexes = st.integers(0, 14_000_000)


@given(st.uuids().map(str), indexes)
def test_a_name_tells_its_index(uid: str, index: int) -> None:
    names = PodNames("web-abc", uid)
    assert names.index(names.name(index)) == index


def test_looking_again_gives_the_same_names() -> None:
    first = islice(PodNames("web", "u").next_names([], lambda _: False), 5)
    again = islice(PodNames("web", "u").next_names([], lambda _: False), 5)
    assert list(first) == list(again)


def test_names_go_on_after_those_that_exist() -> None:
    names = PodNames("web", "u")
    existing = [names.name(3), names.name(7), "adopted"]
    assert next(names.next_names(existing, lambda _: False)) == names.name(8)


def test_the_name_of_a_pod_that_just_went_is_not_used_again() -> None:
    names = PodNames("web", "u")
    assert next(names.next_names([], lambda _: False, after=4)) == names.name(5)


def test_a_name_that_somebody_has_is_left_out() -> None:
    names = PodNames("web", "u")
    assert next(names.next_names([], lambda name: name == names.name(0))) == names.name(1)


def test_owners_of_one_name_get_different_names() -> None:
    assert PodNames("web", "one").name(0) != PodNames("web", "two").name(0)


def test_long_names_are_cut_to_63_characters() -> None:
    names = PodNames("a" * 60, "u")
    assert len(names.name(0)) == 63
    assert names.generate_name == "a" * 60 + "-"
    assert names.index(names.name(5)) == 5


def test_a_name_of_another_form_has_no_index() -> None:
    names = PodNames("web", "u")
    assert names.index("web-abcdefg") is None
    assert names.index("web-aeiou") is None
    assert names.index("other-bcdfg") is None
