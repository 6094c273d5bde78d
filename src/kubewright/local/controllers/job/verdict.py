"""Whether a Job has come to its end, and why. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kubewright.local.controllers.job.job import FAILURE_TARGET, SUCCESS_CRITERIA_MET, Job
from kubewright.local.controllers.job.job_pod import is_failed, phase, restarts
from kubewright.local.controllers.job.policies import FAIL_JOB, match_failure, match_success
from kubewright.local.controllers.job.tally import Tally


class Verdict(msgspec.Struct, frozen=True):
    """How a Job ends; its pods end first, then it is Complete or Failed for this reason."""

    is_success: bool
    reason: str
    message: str


COMPLETED = Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")


def judge(job: Job, tally: Tally, start: datetime | None, now: datetime) -> Verdict | None:
    """Tell how a Job ends; None while it may go on, or is complete by its completions alone.

    What was decided once stays: a Job whose success criteria were met cannot fail any more.
    Otherwise failures come before successes.

    Arguments:
        job: The Job.
        tally: Its pods.
        start: When it was started or resumed, if it is not suspended.
        now: The time that its deadline is compared with.
    """
    if (met := job.true_condition(SUCCESS_CRITERIA_MET)) is not None:
        return Verdict(True, met.get("reason") or "", met.get("message") or "")
    if (target := job.true_condition(FAILURE_TARGET)) is not None:
        return Verdict(False, target.get("reason") or "", target.get("message") or "")
    return (
        _judge_policy(job, tally)
        or _judge_limits(job, tally, start, now)
        or _judge_indexes(job, tally)
        or _judge_success(job, tally)
    )


def _judge_policy(job: Job, tally: Tally) -> Verdict | None:
    if job.failure_policy is None:
        return None
    for pod in tally.pods:
        if is_failed(pod, job) and (match := match_failure(job, pod)).action == FAIL_JOB:
            return Verdict(False, "PodFailurePolicy", match.message)
    return None


def _judge_limits(job: Job, tally: Tally, start: datetime | None, now: datetime) -> Verdict | None:
    if tally.failed > job.backoff_limit or _restarts_too_often(job, tally):
        message = "Job has reached the specified backoff limit"
        return Verdict(False, "BackoffLimitExceeded", message)
    deadline = job.deadline(start)
    if deadline is not None and now >= deadline:
        message = "Job was active longer than specified deadline"
        return Verdict(False, "DeadlineExceeded", message)
    return None


def _restarts_too_often(job: Job, tally: Tally) -> bool:
    """Tell whether containers restarted in their pods as often as pods may fail."""
    if (job.spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    total = sum(restarts(pod) for pod in tally.pods if phase(pod) in ("Running", "Pending"))
    return total >= max(job.backoff_limit, 1)


def _judge_indexes(job: Job, tally: Tally) -> Verdict | None:
    if not tally.failed_indexes:
        return None
    most = job.spec.get("maxFailedIndexes")
    if most is not None and len(tally.failed_indexes) > int(most):
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Verdict(False, "MaxFailedIndexesExceeded", message)
    if len(tally.failed_indexes) + len(tally.succeeded_indexes) >= job.index_count:
        return Verdict(False, "FailedIndexes", "Job has failed indexes")
    return None


def _judge_success(job: Job, tally: Tally) -> Verdict | None:
    message = match_success(job, tally.succeeded_indexes)
    return None if message is None else Verdict(True, "SuccessPolicy", message)


def is_complete(job: Job, tally: Tally, active: int) -> bool:
    """Tell whether enough pods have succeeded and none is active any more."""
    wanted = 1 if job.completions is None else job.completions
    return tally.succeeded >= wanted and active == 0
