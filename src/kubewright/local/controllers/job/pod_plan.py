"""Which pods a Job makes and deletes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.job.backoff import Backoff
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import (
    completion_index,
    finish_time,
    rank_for_removal,
    valid_index,
)
from kubewright.local.controllers.job.tally import Tally, attempts
from kubewright.local.controllers.job.verdict import Verdict

BURST_PODS = 500
"""The most pods that one look creates or deletes."""


class PodPlan(msgspec.Struct, frozen=True):
    """What one look decides: pods to delete, or to create, or to wait until some may be.

    Attributes:
        delete: The pods that go.
        keeps_count: Whether they are counted as failed when they go. Otherwise they lose their
            finalizer first: the Job does not need them any more, which is no fault of theirs.
        create: One item for each pod to make: its index, or None in a Job without indexes.
        after: When pods may be made again.
    """

    delete: Sequence[Object] = ()
    keeps_count: bool = False
    create: Sequence[int | None] = ()
    after: timedelta | None = None


_NOTHING = PodPlan()


def plan_pods(
    job: Job, tally: Tally, verdict: Verdict | None, backoff: Backoff, now: datetime
) -> PodPlan:
    """Decide which pods go or come.

    Arguments:
        job: The Job.
        tally: Its pods.
        verdict: How it ends, if it does: then all active pods go.
        backoff: The failures so far, with those that this look found.
        now: The time that back-off is measured at.
    """
    if verdict is not None:
        return PodPlan(delete=tally.active, keeps_count=True)
    if job.is_deleting:
        return _NOTHING
    wanted = _wanted(job, tally)
    if surplus := _find_surplus(job, tally, len(tally.active) - wanted):
        return PodPlan(delete=surplus if job.is_suspended else surplus[:BURST_PODS])
    missing = wanted - len(tally.active)
    if job.replaces_only_failed:
        missing -= len(tally.terminating)
    if job.is_suspended or missing <= 0:
        return _NOTHING
    return _plan_creation(job, tally, min(missing, BURST_PODS), backoff, now)


def _wanted(job: Job, tally: Tally) -> int:
    """Return how many pods should be active."""
    if job.is_suspended:
        return 0
    if job.completions is None:
        # After the first success nothing new starts; what runs may run to its end.
        return len(tally.active) if tally.succeeded else job.parallelism
    return max(min(job.completions - tally.succeeded, job.parallelism), 0)


def _find_surplus(job: Job, tally: Tally, at_least: int) -> list[Object]:
    """Return the active pods to delete: those of no or of a taken index, then as many as needed."""
    if not job.is_indexed:
        return rank_for_removal(tally.active)[: max(at_least, 0)]
    by_index: dict[int | None, list[Object]] = {}
    for pod in tally.active:
        by_index.setdefault(valid_index(pod, job), []).append(pod)
    useless = by_index.pop(None, [])
    kept = []
    for pods in by_index.values():
        *repeated, last = rank_for_removal(pods)
        useless += repeated
        kept.append(last)
    return useless + rank_for_removal(kept)[: max(at_least - len(useless), 0)]


def _plan_creation(job: Job, tally: Tally, count: int, backoff: Backoff, now: datetime) -> PodPlan:
    if not job.counts_per_index and (wait := backoff.remaining(now)):
        return PodPlan(after=wait)
    if not job.is_indexed:
        return PodPlan(create=[None] * count)
    indexes = list(islice(_pending_indexes(job, tally), count))
    if not job.counts_per_index:
        return PodPlan(create=indexes)
    waits = {index: _remaining(tally.held.get(index), now) for index in indexes}
    due = [index for index, wait in waits.items() if not wait]
    if due or not waits:
        return PodPlan(create=due)
    return PodPlan(after=min(waits.values()))


def _pending_indexes(job: Job, tally: Tally) -> Sequence[int]:
    """Return, in order, the indexes that have no pod and need one."""
    busy = list(tally.active)
    if job.replaces_only_failed:
        busy += tally.terminating
    taken = tally.succeeded_indexes.with_indexes(
        index for pod in busy if (index := completion_index(pod)) is not None
    )
    if tally.failed_indexes is not None:
        taken = taken.union(tally.failed_indexes)
    return list(islice(taken.missing(job.index_count), BURST_PODS))


def _remaining(failed: Object | None, now: datetime) -> timedelta:
    """Return how long an index whose last pod failed has to wait."""
    if failed is None:
        return timedelta()
    return Backoff(attempts(failed) + 1, finish_time(failed)).remaining(now)
