"""Which Jobs of a CronJob are over, and which of those go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.controllers.cronjob.cron_job import CronJob
from kubewright.local.controllers.job.job import COMPLETE, FAILED, Job

_LIMITS = ((COMPLETE, "successfulJobsHistoryLimit"), (FAILED, "failedJobsHistoryLimit"))


def finished_type(job: Object) -> str | None:
    """Return how a Job ended, `Complete` or `Failed`; None while it runs."""
    condition = Job(job).finished_condition
    return None if condition is None else str(condition["type"])


def plan_cleanup(cron_job: CronJob, jobs: Iterable[Object]) -> list[Object]:
    """Return the finished Jobs beyond the history limits, those that started first before others.

    A Job that is being deleted already counts, and is not deleted again.
    """
    finished: dict[str | None, list[Object]] = {}
    for job in jobs:
        finished.setdefault(finished_type(job), []).append(job)
    surplus: list[Object] = []
    for type, field in _LIMITS:
        limit = cron_job.spec.get(field)
        if limit is not None:
            ended = sorted(finished.get(type, ()), key=_start_order)
            surplus += ended[: max(len(ended) - int(limit), 0)]
    return [job for job in surplus if job["metadata"].get("deletionTimestamp") is None]


def _start_order(job: Object) -> tuple[bool, datetime | None, str]:
    start = (job.get("status") or {}).get("startTime")
    return start is None, parse_time(start) if start else None, job["metadata"]["name"]


def last_success(cron_job: CronJob, jobs: Sequence[Object]) -> str | None:
    """Return when the last Job completed, as far as the status and the Jobs tell."""
    times = [cron_job.status.get("lastSuccessfulTime")]
    times += [
        (job.get("status") or {}).get("completionTime")
        for job in jobs
        if finished_type(job) == COMPLETE
    ]
    return max((text for text in times if text), key=parse_time, default=None)
