"""How many replicas metrics ask for, without a server."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from tests.local.controllers.objects import NOW, build_pod

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.horizontal_pod_autoscaler.behavior import Tolerances
from kubewright.local.controllers.horizontal_pod_autoscaler.calculation import (
    MAX_VALUE,
    measure_average,
    measure_utilization,
    propose_by_ratio,
    propose_for_pods,
    propose_per_pod,
    select_values,
    sum_values,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.limits import MAX_REPLICAS
from kubewright.local.controllers.horizontal_pod_autoscaler.pod_samples import (
    MetricUnavailable,
    PodSample,
    Samples,
    parse_duration,
    read_requests,
    read_samples,
)

TEN_PERCENT = Tolerances()


def running(name: str, *, cpu: str = "100m", age: int = 3600, **fields: Any) -> Object:
    pod = build_pod(name, ready_for=age, **fields)
    pod["spec"]["containers"] = [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    ]
    pod["status"]["startTime"] = format_time(NOW - timedelta(seconds=age))
    return pod


def sampled(**values: int) -> Samples:
    return {name: PodSample(value, NOW, timedelta(seconds=30)) for name, value in values.items()}


def propose(pods: list[Object], samples: Samples, percent: int = 50, current: int = 0) -> int:
    values, groups = select_values(pods, samples, "cpu", NOW)
    requests = read_requests(pods, "cpu", "")
    proposal = propose_for_pods(
        current or len(pods),
        values,
        groups,
        measure_utilization(percent, requests),
        full=lambda pod: requests[pod] * max(100, percent) // 100,
        tolerances=TEN_PERCENT,
    )
    return proposal.replicas


@pytest.mark.parametrize(
    ("used", "replicas"),
    [((100, 100), 4), ((50, 50), 2), ((54, 54), 2), ((56, 56), 3), ((10, 10), 1), ((46, 46), 2)],
)
def test_replicas_follow_usage_beyond_the_tolerance(used: tuple[int, int], replicas: int) -> None:
    pods = [running("a"), running("b")]
    assert propose(pods, sampled(a=used[0], b=used[1])) == replicas


def test_a_pod_without_a_sample_uses_nothing_before_scaling_up() -> None:
    pods = [running("a"), running("b"), running("c")]
    # 200 % of the target in two pods is 133 % in three: 4 replicas, not 6.
    assert propose(pods, sampled(a=100, b=100)) == 4


def test_a_pod_without_a_sample_uses_all_before_scaling_down() -> None:
    pods = [running("a"), running("b"), running("c"), running("d")]
    assert propose(pods, sampled(a=10, b=10, c=10)) == 3


def test_missing_samples_never_turn_the_direction() -> None:
    pods = [running("a"), running("b")]
    # One pod far above its target, and nothing known of the other: with 0 it would be below.
    assert propose(pods, sampled(a=60), percent=50) == 2


def test_a_young_pod_says_nothing_yet() -> None:
    # The work of a start must not bring still more replicas.
    old, young = running("a"), running("b", age=20)
    assert propose([old, young], sampled(a=50, b=1000)) == 2


def test_an_ended_pod_is_ignored() -> None:
    pods = [running("a"), running("b", phase="Failed"), running("c", deleting=True)]
    assert propose(pods, sampled(a=100, b=100, c=100), current=1) == 2


def test_only_samples_that_count_are_used() -> None:
    with pytest.raises(MetricUnavailable, match="did not receive metrics for targeted pods"):
        propose([running("a", phase="Pending")], sampled(a=100))
    with pytest.raises(MetricUnavailable, match="no pods returned by selector"):
        propose([], sampled(a=100))


def test_requests_must_be_there() -> None:
    pod = running("a")
    pod["spec"]["containers"].append({"name": "d", "image": "i"})
    with pytest.raises(MetricUnavailable) as refusal:
        read_requests([pod], "cpu", "")
    assert str(refusal.value) == "missing request for cpu in container d of Pod a"
    assert read_requests([pod], "cpu", "c") == {"a": 100}
    with pytest.raises(MetricUnavailable, match="container e not found in Pod a"):
        read_requests([pod], "cpu", "e")


def test_requests_of_the_pod_as_a_whole_come_first() -> None:
    pod = running("a", resources={"requests": {"cpu": "1"}})
    assert read_requests([pod], "cpu", "") == {"a": 1000}


def test_an_average_is_compared_without_requests() -> None:
    pods = [running("a"), running("b")]
    values, groups = select_values(pods, sampled(a=3000, b=5000), "", NOW)
    proposal = propose_for_pods(
        2,
        values,
        groups,
        measure_average(2000),
        full=lambda pod: 2000,
        tolerances=TEN_PERCENT,
    )
    assert (proposal.replicas, proposal.measure.average) == (4, 4000)


def test_absurd_values_stay_within_what_a_count_can_hold() -> None:
    # An int32 that overflows is negative: a huge metric would scale to the minimum.
    assert sum_values([MAX_VALUE, 5]) == MAX_VALUE
    pods = [running("a"), running("b")]
    assert propose_by_ratio(2, float(MAX_VALUE), pods, TEN_PERCENT) == MAX_REPLICAS
    assert propose_per_pod(2, MAX_VALUE, 1, TEN_PERCENT) == (MAX_REPLICAS, MAX_VALUE)
    assert propose(pods, sampled(a=MAX_VALUE // 100, b=MAX_VALUE // 100)) > 1_000_000


def test_from_zero_replicas_the_ratio_is_the_number() -> None:
    assert propose_by_ratio(0, 2.1, [], TEN_PERCENT) == 3
    assert propose_by_ratio(0, 0.0, [], TEN_PERCENT) == 0
    assert propose_per_pod(0, 7000, 2000, TEN_PERCENT) == (4, 7000)


def test_a_ratio_counts_ready_pods_only() -> None:
    pods = [running("a"), running("b", ready=False)]
    assert propose_by_ratio(2, 3.0, pods, TEN_PERCENT) == 3
    with pytest.raises(MetricUnavailable, match="unable to calculate ready pods: no pods"):
        propose_by_ratio(2, 3.0, [], TEN_PERCENT)


def test_a_sample_sums_containers_that_all_have_one() -> None:
    item = {
        "metadata": {"name": "a"},
        "timestamp": format_time(NOW),
        "window": "1m0.5s",
        "containers": [
            {"name": "c", "usage": {"cpu": "1500u", "memory": "1Ki"}},
            {"name": "d", "usage": {"cpu": "1m"}},
        ],
    }
    (sample,) = read_samples([item], "cpu", "").values()
    assert (sample.value, sample.window) == (3, timedelta(seconds=60.5))
    assert read_samples([item], "memory", "") == {}
    assert read_samples([item], "memory", "c")["a"].value == 1024 * 1000


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("1m30s", 90), ("250ms", 0.25)])
def test_reads_durations(text: str, seconds: float) -> None:
    assert math.isclose(parse_duration(text).total_seconds(), seconds)
