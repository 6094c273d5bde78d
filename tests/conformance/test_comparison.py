from __future__ import annotations

import pytest

from conformance.comparison import ABSENT, canonical, differences, sort_causes
from kubewright.api.resource import Object


def test_equal_answers_do_not_differ() -> None:
    assert list(differences({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})) == []


@pytest.mark.parametrize(
    ("recorded", "found", "where"),
    [
        ({"a": 1}, {"a": 2}, ("/a", 1, 2)),
        ({"a": 1}, {}, ("/a", 1, ABSENT)),
        ({}, {"a/b": 1}, ("/a~1b", ABSENT, 1)),
        ({"a": "1"}, {"a": 1}, ("/a", "1", 1)),
        ([1, 2], [1], ("/#", 2, 1)),
        ({"a": None}, {"a": {}}, ("/a", None, {})),
        (1, 2, ("/", 1, 2)),
    ],
)
def test_a_difference_says_where_it_is(
    recorded: object, found: object, where: tuple[str, object, object]
) -> None:
    assert list(differences(recorded, found)) == [where]


def test_the_order_of_managed_fields_and_causes_does_not_count() -> None:
    one = {"metadata": {"managedFields": [{"manager": "b"}, {"manager": "a"}]}}
    other = {"metadata": {"managedFields": [{"manager": "a"}, {"manager": "b"}]}}
    assert canonical(one) == canonical(other)
    assert canonical(["orphan", "example.com/x"]) == canonical(["example.com/x", "orphan"])


def test_the_order_of_other_lists_counts() -> None:
    assert canonical({"items": [2, 1]}) != canonical({"items": [1, 2]})


def test_the_causes_of_a_refusal_are_sorted_with_its_message() -> None:
    causes = [{"field": "b", "message": "wrong"}, {"field": "a", "message": "missing"}]
    status: Object = {
        "message": 'Widget "w" is invalid: [b: wrong, a: missing]',
        "details": {"causes": causes},
    }
    sort_causes(status)
    assert status["message"] == 'Widget "w" is invalid: [a: missing, b: wrong]'
    assert [cause["field"] for cause in causes] == ["a", "b"]


def test_another_refusal_stays_as_it_is() -> None:
    status: Object = {"message": "not found", "details": None}
    sort_causes(status)
    assert status == {"message": "not found", "details": None}
