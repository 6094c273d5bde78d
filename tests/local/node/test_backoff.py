from __future__ import annotations

from kubewright.local.node.backoff import Backoff


def test_first_failure_delays_nothing() -> None:
    backoff = Backoff()
    backoff.fail(100.0)
    assert not backoff.is_waiting(100.0)


def test_doubles_from_ten_seconds_to_five_minutes() -> None:
    backoff = Backoff()
    delays = []
    for _ in range(8):
        backoff.fail(1000.0)
        delays.append(backoff.seconds)
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_waits_until_the_delay_is_over() -> None:
    backoff = Backoff()
    backoff.fail(0.0)
    backoff.fail(5.0)
    assert backoff.is_waiting(14.9)
    assert not backoff.is_waiting(15.0)


def test_begins_afresh_after_ten_minutes_of_running() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.fail(0.0)
    backoff.fail(1000.0, ran_since=400.0)
    assert backoff.seconds == 0


def test_keeps_its_delay_after_a_shorter_run() -> None:
    backoff = Backoff()
    backoff.fail(0.0)
    backoff.fail(1000.0, ran_since=500.0)
    assert backoff.seconds == 10
