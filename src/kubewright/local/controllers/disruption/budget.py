"""The decision of a PodDisruptionBudget: what it expects, what is healthy, its status. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from kubewright.api.conditions import Condition, set_condition
from kubewright.api.resource import Object
from kubewright.api.time import format_time, parse_time
from kubewright.local.controllers.deployment.deployment import resolve
from kubewright.local.controllers.pod import is_pod_ready, is_pod_terminating

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod may live before it is taken for one that stays."""

DISRUPTION_ALLOWED = "DisruptionAllowed"


class Expectation(msgspec.Struct, frozen=True):
    """How many pods there should be, and how many of them must stay healthy."""

    expected: int
    healthy: int


class Disruptions(msgspec.Struct, frozen=True):
    """What became of the pods that the eviction API announced to delete.

    Attributes:
        pending: The announcements that still count, by the name of the pod.
        survivors: The pods that were announced and are still there after `DELETION_TIMEOUT`.
        recheck: When the next announcement runs out.
    """

    pending: Mapping[str, str] = {}
    survivors: tuple[Object, ...] = ()
    recheck: datetime | None = None


def needs_scale(budget: Object) -> bool:
    """Tell whether the pods to expect follow from their controllers and not from the pods alone."""
    spec = budget.get("spec") or {}
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def build_expectation(budget: Object, expected: int) -> Expectation:
    """Build the expectation; percentages are of `expected` and rounded up.

    Args:
        budget: The decoded PodDisruptionBudget.
        expected: The pods that their controllers want where `needs_scale`, else those selected.
    """
    spec = budget.get("spec") or {}
    unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
    if unavailable is not None:
        healthy = max(expected - resolve(unavailable, expected, round_up=True), 0)
        return Expectation(expected, healthy)
    if available is not None:
        return Expectation(expected, resolve(available, expected, round_up=True))
    return Expectation(0, 0)


def plan_disruptions(budget: Object, pods: Sequence[Object], now: datetime) -> Disruptions:
    """Sort the announced disruptions: kept are those of pods that live and may still be deleted."""
    announced = (budget.get("status") or {}).get("disruptedPods") or {}
    pending: dict[str, str] = {}
    survivors: list[Object] = []
    ends: list[datetime] = []
    for pod in pods:
        moment = announced.get(pod["metadata"]["name"])
        if moment is None or is_pod_terminating(pod):
            continue
        end = parse_time(moment) + DELETION_TIMEOUT
        if end < now:
            survivors.append(pod)
        else:
            pending[pod["metadata"]["name"]] = moment
            ends.append(end)
    return Disruptions(pending, tuple(survivors), min(ends, default=None))


def count_healthy(pods: Sequence[Object], pending: Mapping[str, str]) -> int:
    """Count the ready pods that are neither ending nor about to be deleted."""
    return sum(
        is_pod_ready(pod)
        for pod in pods
        if not is_pod_terminating(pod) and pod["metadata"]["name"] not in pending
    )


def build_status(
    budget: Object,
    expectation: Expectation,
    healthy: int,
    pending: Mapping[str, str],
    now: datetime,
) -> Object:
    """Build the status of a budget.

    Without an expected pod nothing is allowed: its first pods may be there before this controller
    has seen them.
    """
    allowed = max(healthy - expectation.healthy, 0) if expectation.expected > 0 else 0
    generation = int(budget["metadata"].get("generation") or 0)
    condition = (
        Condition(DISRUPTION_ALLOWED, "True", "SufficientPods")
        if allowed
        else Condition(DISRUPTION_ALLOWED, "False", "InsufficientPods")
    )
    status: Object = {
        "currentHealthy": healthy,
        "desiredHealthy": expectation.healthy,
        "disruptionsAllowed": allowed,
        "expectedPods": expectation.expected,
        "conditions": _set(budget, condition, now, generation),
    }
    if generation:
        status["observedGeneration"] = generation
    if pending:
        status["disruptedPods"] = dict(pending)
    return status


def build_failed_status(budget: Object, message: str, now: datetime) -> Object:
    """Build the status of a budget that cannot be calculated: nothing may be disrupted."""
    status = dict(budget.get("status") or {})
    generation = int(status.get("observedGeneration") or 0)
    condition = Condition(DISRUPTION_ALLOWED, "False", "SyncFailed", message)
    counts = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return {
        **counts,
        **status,
        "disruptionsAllowed": 0,
        "conditions": _set(budget, condition, now, generation),
    }


def _set(budget: Object, condition: Condition, now: datetime, generation: int) -> list[Object]:
    before = (budget.get("status") or {}).get("conditions") or []
    return set_condition(before, condition, now=format_time(now), generation=generation or None)
