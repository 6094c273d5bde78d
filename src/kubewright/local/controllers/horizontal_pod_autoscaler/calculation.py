"""How many replicas a metric asks for. Pure.

The rule is `ceil(replicas * usage / target)`. Around it: no change within the tolerance, pods
without samples count against any change, and no result may scale the other way than usage asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.horizontal_pod_autoscaler.behavior import Tolerances
from kubewright.local.controllers.horizontal_pod_autoscaler.limits import MAX_REPLICAS
from kubewright.local.controllers.horizontal_pod_autoscaler.pod_samples import (
    MetricUnavailable,
    PodGroups,
    Samples,
    group_pods,
)
from kubewright.local.controllers.pod import is_pod_ready

MAX_VALUE = 2**63 - 1


class Measure(msgspec.Struct, frozen=True):
    """Usage against its target: their `ratio`, the `average` of pods in thousandths, and percent.

    `utilization` is that of the requests, where usage is compared with these.
    """

    ratio: float
    average: int
    utilization: int | None = None


Measured = Callable[[Mapping[str, int]], Measure]


def measure_average(target: int) -> Measured:
    """Build the measure that compares the average of pods with a target in thousandths."""

    def measure(values: Mapping[str, int]) -> Measure:
        average = sum(values.values()) // len(values)
        return Measure(average / target, average)

    return measure


def measure_utilization(target: int, requests: Mapping[str, int]) -> Measured:
    """Build the measure that compares usage as a percentage of requests with a target in percent.

    The measure raises MetricUnavailable where no pod that has a value is known.
    """

    def measure(values: Mapping[str, int]) -> Measure:
        known = {name: value for name, value in values.items() if name in requests}
        requested = sum(requests[name] for name in known)
        if not requested:
            raise MetricUnavailable("no metrics returned matched known pods")
        used = sum(known.values())
        percent = min(used * 100 // requested, MAX_REPLICAS)
        return Measure(percent / target, used // len(known), percent)

    return measure


class PodProposal(msgspec.Struct, frozen=True):
    """The replicas that samples of pods ask for, and what was measured."""

    replicas: int
    measure: Measure


def check_pods(pods: Sequence[Object]) -> None:
    """Check that there are pods to calculate with.

    Raises:
        MetricUnavailable: there are none.
    """
    if not pods:
        raise MetricUnavailable("no pods returned by selector while calculating replica count")


def select_values(
    pods: Sequence[Object], samples: Samples, resource: str, now: datetime
) -> tuple[dict[str, int], PodGroups]:
    """Return the values that count by the name of the pod, and how the pods are grouped.

    Raises:
        MetricUnavailable: there are no pods, or none of their samples counts.
    """
    check_pods(pods)
    groups = group_pods(pods, samples, resource, now)
    left_out = groups.ignored | groups.unready
    values = {name: sample.value for name, sample in samples.items() if name not in left_out}
    if not values:
        raise MetricUnavailable("did not receive metrics for targeted pods (pods might be unready)")
    return values, groups


def propose_for_pods(
    current: int,
    values: Mapping[str, int],
    groups: PodGroups,
    measure: Measured,
    *,
    full: Callable[[str], int],
    tolerances: Tolerances,
) -> PodProposal:
    """Propose replicas by the samples of pods.

    Args:
        current: The replicas that the target's spec has.
        values: The values that count, by pod.
        groups: How the pods are grouped.
        measure: Compares values with the target.
        full: The value that a pod without a sample is taken to have before scaling down.
        tolerances: What is near enough.
    """
    first = measure(values)
    counts_unready = bool(groups.unready) and first.ratio > 1.0
    if not counts_unready and not groups.missing:
        if tolerances.holds(first.ratio):
            return PodProposal(current, first)
        return PodProposal(to_replicas(first.ratio * groups.ready), first)
    filled = dict(values)
    if first.ratio < 1.0:
        filled.update({name: full(name) for name in groups.missing})
    elif first.ratio > 1.0:
        filled.update(dict.fromkeys(groups.missing, 0))
    if counts_unready:
        filled.update(dict.fromkeys(groups.unready, 0))
    ratio = measure(filled).ratio
    replicas = to_replicas(ratio * len(filled))
    turns = (first.ratio < 1.0 < ratio) or (first.ratio > 1.0 > ratio)
    opposes = (ratio < 1.0 and replicas > current) or (ratio > 1.0 and replicas < current)
    keeps = tolerances.holds(ratio) or turns or opposes
    return PodProposal(current if keeps else replicas, first)


def propose_by_ratio(
    current: int, ratio: float, pods: Sequence[Object], tolerances: Tolerances
) -> int:
    """Propose replicas by one value for the whole target.

    From zero replicas the ratio itself is the number: no pod can be ready then.

    Raises:
        MetricUnavailable: there should be pods and are none.
    """
    if current == 0:
        return to_replicas(ratio)
    if tolerances.holds(ratio):
        return current
    try:
        check_pods(pods)
    except MetricUnavailable as error:
        raise MetricUnavailable(f"unable to calculate ready pods: {error}") from error
    ready = sum(
        is_pod_ready(pod) for pod in pods if (pod.get("status") or {}).get("phase") == "Running"
    )
    return to_replicas(ratio * ready)


def propose_per_pod(
    current: int, usage: int, target: int, tolerances: Tolerances
) -> tuple[int, int]:
    """Propose replicas so that each has its part of a value; return them and the part of today.

    Args:
        current: The replicas that the target has, not those that it should have.
        usage: The value for all, in thousandths.
        target: The value for one replica, in thousandths.
        tolerances: What is near enough.
    """
    if not current:
        return to_replicas(usage / target), usage
    replicas = current
    if not tolerances.holds(usage / (target * current)):
        replicas = to_replicas(usage / target)
    return replicas, usage if usage >= MAX_VALUE else math.ceil(usage / current)


def sum_values(values: Sequence[int]) -> int:
    """Add up values; sums that an int64 cannot hold stay at its end, as they would overflow."""
    return min(sum(values), MAX_VALUE)


def to_replicas(number: float) -> int:
    """Round up to replicas; what no replica count can hold stays at the largest."""
    return MAX_REPLICAS if number >= MAX_REPLICAS else math.ceil(number)
