"""The status of a Job: what one look at its pods makes of it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec

from kubewright.api.conditions import find_condition
from kubewright.api.errors import KubewrightError
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.job.job import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    Job,
)
from kubewright.local.controllers.job.tally import Tally
from kubewright.local.controllers.job.verdict import COMPLETED, Verdict, is_complete


class PodChanges(msgspec.Struct):
    """What was done to the pods of a Job in one look, as far as it succeeded."""

    created: list[Object] = msgspec.field(default_factory=list)
    deleted: int = 0
    deleted_ready: int = 0
    error: KubewrightError | None = None


def expect_deletions(tally: Tally) -> PodChanges:
    """Return the changes of a look that deletes all active pods."""
    return PodChanges(deleted=len(tally.active), deleted_ready=tally.ready)


class Progress(msgspec.Struct, frozen=True):
    """What a look found: the status without what is counted, and how the Job ends, if it does.

    `suspended` tells that the Job was suspended (True) or resumed (False) just now.
    """

    status: Object
    verdict: Verdict | None
    suspended: bool | None = None


def build_progress(
    job: Job,
    tally: Tally,
    verdict: Verdict | None,
    changes: PodChanges,
    *,
    start: datetime | None,
    now: datetime,
) -> Progress:
    """Build the part of the status that tells what runs.

    Arguments:
        job: The Job.
        tally: Its pods before the changes.
        verdict: How it ends, as it was judged before the changes.
        changes: What was done to the pods since, or is going to be.
        start: When it was started, if it is not suspended.
        now: The time that conditions get.
    """
    active = len(tally.active) - changes.deleted + len(changes.created)
    status = {
        **job.status,
        "uncountedTerminatedPods": {**(job.status.get("uncountedTerminatedPods") or {})},
        "ready": tally.ready - changes.deleted_ready,
        "terminating": len(tally.terminating) + changes.deleted,
    }
    _set(status, "active", active)
    _set(status, "startTime", format_time(start) if start is not None else None)
    if verdict is not None:
        return Progress(status, verdict)
    if is_complete(job, tally, active):
        return Progress(status, COMPLETED)
    return Progress(status, None) if job.is_deleting else _note_suspension(job, status, now)


def _note_suspension(job: Job, status: Object, now: datetime) -> Progress:
    if job.is_suspended:
        after = with_condition(status, SUSPENDED, "True", "JobSuspended", "Job suspended", now)
    else:
        after = with_condition(status, SUSPENDED, "False", "JobResumed", "Job resumed", now)
    if after is status:
        return Progress(status, None)
    # The deadline counts from when a Job was last resumed.
    _set(after, "startTime", None if job.is_suspended else format_time(now))
    return Progress(after, None, suspended=job.is_suspended)


def with_condition(
    status: Object, type: str, state: str, reason: str, message: str, now: datetime
) -> Object:
    """Return a status with a condition; the same object when it says so already.

    A condition that was never there is not added to say False.
    """
    conditions = status.get("conditions") or []
    before = find_condition(conditions, type)
    if before is None and state == "False":
        return status
    told = (state, reason, message)
    if before is not None and tuple(map(before.get, ("status", "reason", "message"))) == told:
        return status
    moment = format_time(now)
    condition = {
        "type": type,
        "status": state,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }
    others = [condition if c.get("type") == type else c for c in conditions]
    return {**status, "conditions": others if before is not None else [*conditions, condition]}


def with_interim_condition(status: Object, verdict: Verdict | None, now: datetime) -> Object:
    """Return a status that tells how the Job will end; it stands before its pods are let go.

    Whoever looks after a crash then comes to the same end, though the pods may be gone (KEP-3329).
    """
    if verdict is None:
        return status
    type = SUCCESS_CRITERIA_MET if verdict.is_success else FAILURE_TARGET
    return with_condition(status, type, "True", verdict.reason, verdict.message, now)


def with_final_condition(status: Object, verdict: Verdict, now: datetime) -> Object | None:
    """Return the status of the finished Job; None while pods end or are not counted."""
    if any((status.get("uncountedTerminatedPods") or {}).values()) or status.get("terminating"):
        return None
    type = COMPLETE if verdict.is_success else FAILED
    finished = with_condition(status, type, "True", verdict.reason, verdict.message, now)
    return {**finished, "completionTime": format_time(now)} if verdict.is_success else finished


def count_released(status: Object, tracked: Collection[str]) -> Object:
    """Move pods from the uncounted to the counters when they are not tracked any more.

    Arguments:
        status: The status; it is not changed.
        tracked: UIDs of the pods that have the finalizer.
    """
    before = status.get("uncountedTerminatedPods") or {}
    after: Object = {}
    counted = dict(status)
    for outcome in ("succeeded", "failed"):
        uids = before.get(outcome) or []
        left = [uid for uid in uids if uid in tracked]
        _set(after, outcome, left)
        _set(counted, outcome, int(status.get(outcome) or 0) + len(uids) - len(left))
    return {**counted, "uncountedTerminatedPods": after}


def _set(target: Object, key: str, value: Any) -> None:
    """Set a field as the API writes it: what is zero or empty is left out."""
    if value:
        target[key] = value
    else:
        target.pop(key, None)
