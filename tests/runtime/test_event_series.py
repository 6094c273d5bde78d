"""Events: what repeats is counted, and nothing becomes a storm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kubewright.runtime.event_series import Correlator, Occurrence, Series

START = datetime(2026, 11, 28, 1, 0, 0, tzinfo=UTC)


def occurrence(note: str = "Created pod a", name: str = "web") -> Occurrence:
    regarding = (("kind", "ReplicaSet"), ("namespace", "default"), ("name", name))
    return Occurrence(
        component="replicaset-controller",
        instance="replicaset-controller-0",
        regarding=regarding,
        related=(),
        type="Normal",
        reason="SuccessfulCreate",
        action="CreatePod",
        note=note,
    )


def write(correlator: Correlator, now: datetime) -> list[Series]:
    due = list(correlator.due(now))
    for series in due:
        correlator.wrote(series, series.count, now)
    return due


def test_writes_a_first_occurrence_as_it_is() -> None:
    correlator = Correlator()
    correlator.record(occurrence(), START)
    (series,) = write(correlator, START)
    event = series.to_object()
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("web.")
    assert event["eventTime"] == "2026-11-28T01:00:00.000000Z"
    assert event["regarding"] == {"kind": "ReplicaSet", "namespace": "default", "name": "web"}
    assert (event["reason"], event["note"]) == ("SuccessfulCreate", "Created pod a")
    assert event["reportingController"] == "replicaset-controller"
    assert "series" not in event
    assert write(correlator, START) == []


def test_folds_repetitions_into_a_count_with_growing_pauses() -> None:
    correlator = Correlator()
    writes = []
    for second in range(3600):
        now = START + timedelta(seconds=second)
        correlator.record(occurrence(), now)
        writes += [(second, series.count) for series in write(correlator, now)]
    assert writes[:5] == [(0, 1), (1, 2), (11, 12), (31, 32), (71, 72)]
    assert len(writes) < 20
    (series,) = correlator.due(START + timedelta(hours=2))
    assert series.to_series()["count"] == 3600


def test_different_notes_are_different_events() -> None:
    correlator = Correlator()
    for note in ("Created pod a", "Created pod b"):
        correlator.record(occurrence(note), START)
    assert len(write(correlator, START)) == 2


def test_more_than_ten_similar_notes_are_combined() -> None:
    correlator = Correlator()
    for number in range(100):
        correlator.record(occurrence(f"failed at {number}"), START)
    written = write(correlator, START)
    assert len(written) == 11
    assert written[-1].count == 90
    assert written[-1].occurrence.note == "(combined from similar events): failed at 10"


def test_names_differ_within_one_microsecond() -> None:
    correlator = Correlator()
    for number in range(10):
        correlator.record(occurrence(f"n{number}"), START)
    assert len({series.name for series in write(correlator, START)}) == 10


def test_forgets_a_series_that_ended() -> None:
    correlator = Correlator()
    correlator.record(occurrence(), START)
    (first,) = write(correlator, START)
    correlator.record(occurrence(), START + timedelta(minutes=7))
    (second,) = write(correlator, START + timedelta(minutes=7))
    assert second.name != first.name
    assert second.count == 1


def test_cuts_a_note_that_the_api_would_refuse() -> None:
    correlator = Correlator()
    correlator.record(occurrence("ä" * 2000), START)
    (series,) = write(correlator, START)
    assert len(series.to_object()["note"].encode()) <= 1024
