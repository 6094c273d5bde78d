"""For which time a CronJob should have made a Job by now, and when the next is due. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from kubewright.local.controllers.cronjob.cron_job import CronJob
from kubewright.local.cron_schedule import Schedule, ScheduleError

_MANY = 100
# Room for clocks that differ a little: the look must not come before the minute does.
_MARGIN = timedelta(milliseconds=100)


class Due(msgspec.Struct, frozen=True):
    """What a schedule asks for by now.

    Attributes:
        since: What the schedule is counted from: the last Job, or the making of the CronJob.
        latest: The latest time that came; None when none did. Earlier ones are not made up for.
        missed: Roughly how many came without a Job, when it was more than one.
    """

    since: datetime
    latest: datetime | None = None
    missed: int = 0

    @property
    def is_too_many(self) -> bool:
        """Tell whether so many were missed that a clock is probably wrong."""
        return self.missed > _MANY


def find_due(
    cron_job: CronJob, schedule: Schedule, now: datetime, *, with_deadline: bool = True
) -> Due:
    """Find the latest time that is due.

    Arguments:
        cron_job: The CronJob.
        schedule: Its schedule in its zone.
        now: The present.
        with_deadline: Whether times count that `startingDeadlineSeconds` makes too late.

    Raises:
        ScheduleError: the schedule names no time that exists, such as the 31st of February.
    """
    since = cron_job.last_schedule or cron_job.created
    if with_deadline and cron_job.starting_deadline is not None:
        since = max(since, now - timedelta(seconds=cron_job.starting_deadline))
    first = schedule.next(since)
    second = schedule.next(first) if first is not None else None
    if first is not None and now < first:
        return Due(since)
    if first is not None and second is not None and now < second:
        return Due(since, first)
    if first is None or second is None or second - first < timedelta(seconds=1):
        raise ScheduleError("time difference between two schedules is less than 1 second")
    missed = (now - first) // (second - first) + 1
    # The gap is an estimate: schedules are uneven. From a step before it the walk is exact.
    moment = schedule.next(first + (second - first) * (missed - 2))
    latest = None
    while moment is not None and moment <= now:
        latest = moment
        moment = schedule.next(moment)
    return Due(since, latest, missed)


def time_to_next(cron_job: CronJob, schedule: Schedule, now: datetime) -> timedelta | None:
    """Return how long it is until the next time; None if there is none."""
    try:
        due = find_due(cron_job, schedule, now, with_deadline=False)
    except ScheduleError:
        start = now
    else:
        start = due.latest or (now if due.missed else due.since)
    moment = schedule.next(start)
    return None if moment is None else max(moment + _MARGIN - now, timedelta())
