from kubewright.api.conditions import Condition, find_condition, is_condition_true, set_condition

BEFORE, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def test_transition_time_moves_only_when_the_status_changes() -> None:
    first = set_condition([], Condition("Ready", "False", "Waiting", "1 of 3"), now=BEFORE)
    same = set_condition(first, Condition("Ready", "False", "Waiting", "2 of 3"), now=LATER)
    changed = set_condition(same, Condition("Ready", "True", "AllReady"), now=LATER)

    assert same[0]["lastTransitionTime"] == BEFORE
    assert same[0]["message"] == "2 of 3"
    assert changed[0]["lastTransitionTime"] == LATER


def test_other_conditions_keep_their_place_and_content() -> None:
    conditions = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]

    result = set_condition(conditions, Condition("A", "False", "Why"), now=LATER, generation=7)

    assert [c["type"] for c in result] == ["A", "B"]
    assert result[1] is conditions[1]
    assert result[0]["observedGeneration"] == 7
    assert conditions[0] == {"type": "A", "status": "True"}


def test_absent_conditions_are_not_true() -> None:
    assert not is_condition_true({}, "Ready")
    assert not is_condition_true({"status": {"conditions": []}}, "Ready")
    assert find_condition([], "Ready") is None
