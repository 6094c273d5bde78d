"""How the pods of a Job are counted, each exactly once. Pure.

A pod that ended is first written to the status by its UID, then loses its finalizer, then moves
into the counters (KEP-2307). Whatever stops in between, the next look finds the pod in exactly one
of these places. A succeeded index needs no UID: the set of completed indexes has it once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import (
    completion_index,
    is_failed,
    is_succeeded,
    uid_of,
    valid_index,
)
from kubewright.local.controllers.job.policies import match_failure
from kubewright.local.controllers.job.status import count_released
from kubewright.local.controllers.job.tally import Tally
from kubewright.local.controllers.job.verdict import Verdict

MAX_UNCOUNTED = 500
"""The most pods that one look counts: their UIDs keep the status below some 20 KB."""


class Counting(msgspec.Struct, frozen=True):
    """What to write and which pods to let go after it.

    Attributes:
        status: The status with what ended; to be written before a finalizer is removed.
        release: The pods whose finalizer can go then.
        is_whole: Whether no pod had to wait for another look.
    """

    status: Object
    release: Sequence[Object]
    is_whole: bool


def plan_counting(job: Job, tally: Tally, status: Object, verdict: Verdict | None) -> Counting:
    """Decide which pods are counted now.

    Arguments:
        job: The Job.
        tally: Its pods.
        status: The status that `build_progress` built.
        verdict: How the Job ends, if it does: then all pods are let go.
    """
    status = count_released(status, {uid_of(pod) for pod in tally.tracked})
    uncounted = status["uncountedTerminatedPods"]
    lists = {outcome: list(uncounted.get(outcome) or ()) for outcome in ("succeeded", "failed")}
    indexes: list[int] = []
    release: list[Object] = []
    is_whole = True
    for pod in tally.tracked:
        if not _can_release(job, tally, pod, verdict):
            continue
        release.append(pod)
        _count(job, tally, pod, verdict, lists, indexes)
        if len(indexes) + sum(map(len, lists.values())) >= MAX_UNCOUNTED:
            is_whole = False
            break
    status["uncountedTerminatedPods"] = {key: uids for key, uids in lists.items() if uids}
    if job.is_indexed:
        status = _with_indexes(status, tally, indexes)
    return Counting(status, release, is_whole)


def _can_release(job: Job, tally: Tally, pod: Object, verdict: Verdict | None) -> bool:
    if job.is_deleting or verdict is not None or is_succeeded(pod):
        return True
    if not is_failed(pod, job):
        return False
    index = completion_index(pod)
    held = None if index is None else tally.held.get(index)
    return held is None or uid_of(held) != uid_of(pod)


def _count(
    job: Job,
    tally: Tally,
    pod: Object,
    verdict: Verdict | None,
    lists: dict[str, list[str]],
    indexes: list[int],
) -> None:
    uid, index = uid_of(pod), valid_index(pod, job)
    if is_succeeded(pod) and uid not in lists["failed"]:
        if not job.is_indexed:
            if uid not in lists["succeeded"]:
                lists["succeeded"].append(uid)
        elif index is not None and index not in tally.counted_indexes:
            indexes.append(index)
        return
    # Pods that a failed Job ends have failed with it; those that a success ends have not.
    ended = is_failed(pod, job) or (verdict is not None and not verdict.is_success)
    is_valid = not job.is_indexed or index is not None
    if ended and is_valid and uid not in lists["failed"] and match_failure(job, pod).is_counted:
        lists["failed"].append(uid)


def _with_indexes(status: Object, tally: Tally, indexes: Sequence[int]) -> Object:
    completed = tally.succeeded_indexes.with_indexes(indexes)
    fields = {"succeeded": len(completed), "completedIndexes": str(completed)}
    status = {**{k: v for k, v in status.items() if k not in fields}}
    status |= {key: value for key, value in fields.items() if value}
    if tally.failed_indexes is not None:
        status["failedIndexes"] = str(tally.failed_indexes)
    return status
