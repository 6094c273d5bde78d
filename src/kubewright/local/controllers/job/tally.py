"""What a Job has: its pods sorted by what they are, and how many ended how. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.job.indexes import Indexes
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import (
    completion_index,
    finish_time,
    ignored_failures,
    index_failures,
    is_failed,
    is_succeeded,
    is_tracked,
    uid_of,
    valid_index,
)
from kubewright.local.controllers.job.policies import FAIL_INDEX, match_failure
from kubewright.local.controllers.pod import (
    is_pod_active,
    is_pod_finished,
    is_pod_ready,
    is_pod_terminating,
)


class Tally(msgspec.Struct, frozen=True):
    """The pods of a Job, and its counters with what has ended since they were written.

    Attributes:
        pods: All pods that the Job controls, those of an Indexed Job by index.
        active: Those that are neither over nor asked to end.
        terminating: Those that were asked to end and have not ended.
        tracked: Those that no counter has: they have the finalizer, and it was not just removed.
        newly_succeeded, newly_failed: Those that ended and are not in the status at all.
        succeeded, failed: The counters with all of them; ignored failures do not count.
        counted_indexes: The completed indexes of the status.
        succeeded_indexes: These and those of newly succeeded pods.
        failed_indexes: Indexes that may not be tried again; None where failures are not per index.
        held: By index, the failed pod that keeps its finalizer until its successor has its counts.
    """

    pods: Sequence[Object]
    active: Sequence[Object]
    terminating: Sequence[Object]
    tracked: Sequence[Object]
    newly_succeeded: Sequence[Object]
    newly_failed: Sequence[Object]
    succeeded: int
    failed: int
    counted_indexes: Indexes = Indexes()
    succeeded_indexes: Indexes = Indexes()
    failed_indexes: Indexes | None = None
    held: Mapping[int, Object] = {}

    @property
    def ready(self) -> int:
        """Count the active pods that are ready."""
        return sum(is_pod_ready(pod) for pod in self.active)


def build_tally(job: Job, pods: Sequence[Object], released: Collection[str] = ()) -> Tally:
    """Sort and count the pods of a Job.

    Arguments:
        job: The Job at the same time as the pods, or before.
        pods: All pods that it controls.
        released: UIDs of pods whose finalizer was removed, though the view may still show it:
            they are counted, and counting them twice would complete the Job too early.
    """
    if job.is_indexed:
        pods = sorted(pods, key=_index_order)
    tracked = [pod for pod in pods if is_tracked(pod) and uid_of(pod) not in released]
    succeeded = _find_new(job, tracked, "succeeded", is_succeeded)
    failed = _find_new(job, tracked, "failed", lambda pod: is_failed(pod, job))
    counted_failures = sum(match_failure(job, pod).is_counted for pod in failed)
    tally = Tally(
        pods=pods,
        active=[pod for pod in pods if is_pod_active(pod)],
        terminating=[p for p in pods if is_pod_terminating(p) and not is_pod_finished(p)],
        tracked=tracked,
        newly_succeeded=succeeded,
        newly_failed=failed,
        succeeded=job.count("succeeded") + len(succeeded) + len(job.uncounted("succeeded")),
        failed=job.count("failed") + counted_failures + len(job.uncounted("failed")),
    )
    return _with_indexes(job, tally) if job.is_indexed else tally


def _index_order(pod: Object) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _find_new(
    job: Job, tracked: Sequence[Object], outcome: str, ended: Callable[[Object], bool]
) -> list[Object]:
    known = set(job.uncounted(outcome))
    return [
        pod
        for pod in tracked
        if uid_of(pod) not in known
        and (not job.is_indexed or valid_index(pod, job) is not None)
        and ended(pod)
    ]


def _with_indexes(job: Job, tally: Tally) -> Tally:
    counted = job.indexes("completedIndexes")
    succeeded = counted.with_indexes(
        index
        for pod in tally.pods
        if is_succeeded(pod) and is_tracked(pod) and (index := valid_index(pod, job)) is not None
    )
    tally = msgspec.structs.replace(
        tally,
        counted_indexes=counted,
        succeeded_indexes=succeeded,
        succeeded=len(succeeded),
    )
    if not job.counts_per_index:
        return tally
    failed = job.indexes("failedIndexes").with_indexes(
        index
        for pod in tally.pods
        if is_tracked(pod)
        and (index := valid_index(pod, job)) is not None
        and _ends_index(pod, job)
    )
    tally = msgspec.structs.replace(tally, failed_indexes=failed)
    return msgspec.structs.replace(tally, held=_find_held(job, tally, succeeded, failed))


def _ends_index(pod: Object, job: Job) -> bool:
    """Tell whether this failure is the last one that its index may have."""
    if not is_failed(pod, job):
        return False
    match = match_failure(job, pod)
    limit = job.backoff_limit_per_index or 0
    return match.action == FAIL_INDEX or (match.is_counted and index_failures(pod) >= limit)


def _find_held(job: Job, tally: Tally, succeeded: Indexes, failed: Indexes) -> dict[int, Object]:
    """Return the last failed pod of each index that waits for a successor.

    How often an index has failed is written on its pods only, so this one must stay till then.
    """
    settled = {index for pod in tally.active if (index := completion_index(pod)) is not None}
    held: dict[int, Object] = {}
    for pod in tally.tracked:
        index = valid_index(pod, job)
        if index is None or not is_failed(pod, job):
            continue
        if index in succeeded or index in failed or index in settled:
            continue
        before = held.get(index)
        if before is None or _is_later_failure(pod, before):
            held[index] = pod
    return held


def _is_later_failure(pod: Object, other: Object) -> bool:
    return attempts(pod) >= attempts(other) and finish_time(pod) >= finish_time(other)


def attempts(pod: Object) -> int:
    """Return how many pods of its index had failed before this one, ignored or not."""
    return index_failures(pod) + ignored_failures(pod)
