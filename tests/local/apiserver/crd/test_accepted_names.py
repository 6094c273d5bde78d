from __future__ import annotations

from typing import Any

from tests.local.apiserver.crd.definitions import NOW, definition, established

from kubewright.api.conditions import find_condition
from kubewright.local.apiserver.crd.accepted_names import plan_names


def conditions(status: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(c["type"], c["status"], c["reason"], c["message"]) for c in status["conditions"]]


def test_accepts_free_names_and_establishes() -> None:
    status = plan_names(definition(), [], NOW)
    assert status is not None
    assert status["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert conditions(status) == [
        ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ]
    assert status["storedVersions"] == ["v1"]


def test_changes_nothing_the_second_time() -> None:
    assert plan_names(established(), [], "2027-01-01T00:00:00Z") is None


def test_refuses_a_taken_short_name_and_keeps_the_others() -> None:
    first = established()
    first["status"]["acceptedNames"]["shortNames"] = ["w"]
    second = definition(plural="wheels")
    second["spec"]["names"]["shortNames"] = ["w"]
    status = plan_names(second, [first, second], NOW)
    assert status is not None
    assert status["acceptedNames"] == {
        "plural": "wheels",
        "singular": "wheel",
        "kind": "Wheel",
        "listKind": "WheelList",
    }
    assert conditions(status) == [
        ("NamesAccepted", "False", "ShortNamesConflict", '"w" is already in use'),
        ("Established", "False", "NotAccepted", "not all names are accepted"),
    ]


def test_refuses_a_taken_kind_and_names_the_last_conflict() -> None:
    second = definition(plural="wodgets")
    second["spec"]["names"] |= {"kind": "Widget", "listKind": "WidgetList"}
    status = plan_names(second, [established()], NOW)
    assert status is not None
    assert status["acceptedNames"]["kind"] == ""
    assert status["conditions"][0]["reason"] == "ListKindConflict"


def test_other_groups_do_not_matter() -> None:
    other = established()
    other["spec"]["group"] = "other.org"
    other["metadata"]["name"] = "widgets.other.org"
    status = plan_names(definition(), [other], NOW)
    assert status is not None
    assert status["conditions"][1]["status"] == "True"


def test_an_established_definition_stays_established_when_a_new_name_is_taken() -> None:
    first = established()
    first["status"]["acceptedNames"]["shortNames"] = ["w"]
    second = established(plural="wheels")
    second["spec"]["names"]["shortNames"] = ["w"]
    status = plan_names(second, [first], NOW)
    assert status is not None
    established_condition = find_condition(status["conditions"], "Established")
    assert established_condition is not None
    assert established_condition["status"] == "True"
    assert status["conditions"][0]["status"] == "False"
