from __future__ import annotations

import pytest

from kubewright.local.controllers.label_selector import LabelSelector, Requirement


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ["a", "b"], {"k": "a"}, True),
        ("In", ["a"], {}, False),
        ("NotIn", ["a"], {}, True),
        ("NotIn", ["a"], {"k": "a"}, False),
        ("Exists", [], {"k": ""}, True),
        ("DoesNotExist", [], {"k": ""}, False),
        ("Gt", ["5"], {"k": "6"}, True),
        ("Lt", ["5"], {"k": "x"}, False),
    ],
)
def test_requirements(
    operator: str, values: list[str], labels: dict[str, str], expected: bool
) -> None:
    requirement = Requirement.of({"key": "k", "operator": operator, "values": values})
    assert requirement.matches(labels) is expected


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not LabelSelector.of(None).matches({"a": "b"})
    assert LabelSelector.of({}).matches({"a": "b"})
    assert LabelSelector.of({}).is_empty


def test_all_requirements_must_hold() -> None:
    selector = LabelSelector.of(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "v", "operator": "Exists"}],
        }
    )
    assert selector.matches({"app": "web", "v": "1"})
    assert not selector.matches({"app": "web"})
    assert not selector.matches(None)
