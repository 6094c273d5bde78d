"""Rates of usage, from what nodes tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.resource import NamespacedName
from kubewright.local.metrics_server.exposition import Point, Reading, read_exposition
from kubewright.local.metrics_server.metrics_objects import build_usage, format_duration
from kubewright.local.metrics_server.usage_store import Rate, UsageStore, build_rate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = NamespacedName("ns", "p")
TEXT = """\
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 12.5 1767225600000
node_memory_working_set_bytes 1.048576e+06 1767225600000
container_cpu_usage_seconds_total{container="c",namespace="ns",pod="p"} 3 1767225590000
container_memory_working_set_bytes{container="c",namespace="ns",pod="p"} 2048 1767225590000
container_start_time_seconds{container="c",namespace="ns",pod="p"} 1.76722558e+09
pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 3 1767225590000
nonsense{ 1
node_cpu_usage_seconds_total NaN
node_memory_working_set_bytes +Inf
resource_scrape_error 0
"""


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def at(offset: float, cpu: float, *, started: float | None = None) -> Point:
    begun = None if started is None else NOW + seconds(started)
    return Point(NOW + seconds(offset), cpu, 1024, begun)


def test_reads_what_a_kubelet_tells() -> None:
    reading = read_exposition(TEXT, NOW)
    assert reading.node == Point(NOW, 12.5, 1 << 20)
    (point,) = reading.pods[KEY].values()
    assert (point.cpu_seconds, point.memory_bytes) == (3, 2048)
    assert (point.time, point.started) == (NOW - seconds(10), NOW - seconds(20))


def test_a_rate_is_between_two_looks() -> None:
    assert build_rate(at(15, 4.5), at(0, 1.5)) == Rate(NOW + seconds(15), seconds(15), 0.2, 1024)


def test_a_young_container_is_measured_since_its_start() -> None:
    rate = build_rate(at(0, 5, started=-10), None)
    assert rate is not None
    assert (rate.cores, rate.window) == (0.5, seconds(10))
    assert build_rate(at(0, 5, started=-3600), None) is None
    assert build_rate(at(0, 5), None) is None


def test_a_restarted_container_is_never_below_zero() -> None:
    rate = build_rate(at(15, 1, started=10), at(0, 100, started=-500))
    assert rate is not None
    assert rate.cores == pytest.approx(0.2)
    assert build_rate(at(15, 1), at(0, 100)) is None
    assert build_rate(at(0, 1), at(0, 1)) is None


def note(store: UsageStore, offset: float, **cpu: float) -> None:
    pods = {KEY: {name: at(offset, value) for name, value in cpu.items()}}
    store.note("n", Reading(at(offset, offset), pods))


def test_a_pod_counts_when_all_its_containers_do() -> None:
    store = UsageStore()
    note(store, 0, a=1)
    assert store.pod_rates(KEY) is None
    assert not store.is_settled
    note(store, 10, a=2, b=1)
    assert store.pod_rates(KEY) is None
    note(store, 20, a=3, b=1)
    rates = store.pod_rates(KEY)
    assert rates is not None
    assert {name: rate.cores for name, rate in rates.items()} == {"a": 0.1, "b": 0}
    assert store.is_settled


def test_what_a_silent_node_told_is_forgotten() -> None:
    store = UsageStore()
    note(store, 0, a=1)
    note(store, 10, a=2)
    store.retain({"n"}, NOW + seconds(100))
    assert store.node_rate("n") is not None
    store.retain({"n"}, NOW + seconds(131))
    assert store.node_rate("n") is None
    note(store, 140, a=2)
    store.retain(set(), NOW + seconds(140))
    assert store.pod_rates(KEY) is None


def test_amounts_are_written_as_the_metrics_api_does() -> None:
    usage = build_usage(Rate(NOW, seconds(1), 0.0123456789, 3 << 20))
    assert usage == {"cpu": "12345679n", "memory": "3Mi"}


@pytest.mark.parametrize(
    ("text", "duration"), [("15.02s", 15.02), ("1m3s", 63), ("10s", 10), ("0.5s", 0.5)]
)
def test_durations_are_written_as_go_does(text: str, duration: float) -> None:
    assert format_duration(seconds(duration)) == text
