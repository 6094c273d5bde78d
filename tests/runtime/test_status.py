"""Conditions and status: kstatus' meaning, and no change without a cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kubewright.api.conditions import Condition, find_condition
from kubewright.api.resource import Object
from kubewright.runtime.readiness import Progress, Readiness
from kubewright.runtime.status import (
    Summary,
    build_conditions,
    build_status,
    condition_reason,
    steady_message,
)

NOW = datetime(2026, 11, 28, 1, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
READY = Summary(Progress.CURRENT, "AsDesired", "all children are ready")
WAITING = Summary(Progress.IN_PROGRESS, "ChildrenNotReady", "Deployment a: 1 of 3")
STUCK = Summary(Progress.FAILED, "Invalid", "spec.size: must be odd")


def truths(conditions: list[Object]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in conditions}


def owner(status: Object | None = None, fields: Object | None = None) -> Object:
    entry = {
        "manager": "op",
        "operation": "Apply",
        "apiVersion": "a/v1",
        "subresource": "status",
        "fieldsV1": fields or {},
    }
    return {
        "apiVersion": "a/v1",
        "kind": "Pool",
        "metadata": {"name": "x", "uid": "1", "generation": 4, "managedFields": [entry]},
        "status": status or {},
    }


def test_exactly_one_condition_is_true() -> None:
    for summary, expected in ((READY, "Ready"), (WAITING, "Reconciling"), (STUCK, "Stalled")):
        conditions = build_conditions([], summary, generation=1, now=NOW)
        assert [c["type"] for c in conditions if c["status"] == "True"] == [expected]
        assert all(c["reason"] and c["observedGeneration"] == 1 for c in conditions)


def test_the_cause_stands_in_ready_too() -> None:
    conditions = build_conditions([], STUCK, generation=1, now=NOW)
    for type in ("Ready", "Stalled"):
        condition = find_condition(conditions, type)
        assert condition is not None
        assert condition["message"] == "spec.size: must be odd"


def test_an_unchanged_summary_changes_nothing_however_late() -> None:
    first = build_status(owner(), {"nodes": ["a"]}, READY, manager="op", now=NOW)
    again = build_status(owner(first), {"nodes": ["a"]}, READY, manager="op", now=LATER)
    assert again == first


def test_a_transition_changes_only_the_times_of_what_changed() -> None:
    first = build_status(owner(), {}, WAITING, manager="op", now=NOW)
    second = build_status(owner(first), {}, READY, manager="op", now=LATER)
    times = {c["type"]: c["lastTransitionTime"] for c in second["conditions"]}
    assert truths(second["conditions"]) == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }
    assert times == {
        "Ready": "2026-11-28T01:05:00Z",
        "Reconciling": "2026-11-28T01:05:00Z",
        "Stalled": "2026-11-28T01:00:00Z",
    }


def test_a_condition_of_the_authors_own_gets_its_times() -> None:
    """A status function is pure: it cannot know when something changed."""
    healthy = Condition("Healthy", "True", "Fine").to_object()
    first = build_status(owner(), {"conditions": [healthy]}, READY, manager="op", now=NOW)
    again = build_status(owner(first), {"conditions": [healthy]}, READY, manager="op", now=LATER)
    ill = Condition("Healthy", "False", "Ill", "it coughs").to_object()
    then = build_status(owner(again), {"conditions": [ill]}, READY, manager="op", now=LATER)

    assert again == first
    assert find_condition(first["conditions"], "Healthy") == {
        **healthy,
        "lastTransitionTime": "2026-11-28T01:00:00Z",
        "observedGeneration": 4,
    }
    told = find_condition(then["conditions"], "Healthy") or {}
    assert (told["message"], told["lastTransitionTime"]) == ("it coughs", "2026-11-28T01:05:00Z")


def test_a_failure_keeps_what_was_said_before_and_nothing_of_others() -> None:
    fields: Object = {"f:status": {"f:nodes": {}, "f:conditions": {'k:{"type":"Backup"}': {}}}}
    before = {
        "nodes": ["a"],
        "foreign": 1,
        "conditions": [{"type": "Backup", "status": "True"}, {"type": "Else", "status": "True"}],
    }
    status = build_status(owner(before, fields), None, STUCK, manager="op", now=NOW)
    assert status["nodes"] == ["a"]
    assert "foreign" not in status
    assert truths(status["conditions"]) == {
        "Backup": "True",
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
    }
    assert status["observedGeneration"] == 4


def test_summaries_follow_the_children() -> None:
    assert Summary.of(Readiness(Progress.CURRENT)).progress is Progress.CURRENT
    failed = Summary.of(Readiness(Progress.FAILED, "Job x: no"))
    assert (failed.reason, failed.message) == ("ChildFailed", "Job x: no")
    ending = Summary.of(Readiness(Progress.TERMINATING, "Job x: ends"))
    assert ending.reason == "ChildrenNotReady"


def test_reasons_are_words_and_messages_are_steady() -> None:
    assert condition_reason("Bad Request!") == "BadRequest"
    assert condition_reason("422") == "Failed422"
    assert steady_message("<Pool object at 0x7f12ab34cd56> failed") == "<Pool object at 0x…> failed"
