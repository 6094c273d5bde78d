"""The pure half of the CronJob controller: what is due, what is made, what goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.local.controllers.batch_objects import build_cron_job, build_job
from tests.local.controllers.objects import NOW

from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.cronjob.cron_job import CronJob, build_job_reference, find_zone
from kubewright.local.controllers.cronjob.cron_job import build_job as build_scheduled_job
from kubewright.local.controllers.cronjob.due_time import Due, find_due, time_to_next
from kubewright.local.controllers.cronjob.history import last_success, plan_cleanup
from kubewright.local.cron_schedule import ScheduleError, parse_schedule

HOUR = timedelta(hours=1)
# 12:00 exactly: an hour that begins now is due.
assert NOW.minute == NOW.second == 0


def due(schedule: str = "0 * * * *", now: datetime = NOW, **fields: Any) -> Due:
    cron_job = CronJob(build_cron_job(schedule=schedule, **fields))
    return find_due(cron_job, parse_schedule(schedule), now)


class TestDue:
    def test_nothing_was_due_before_the_cron_job_was_made(self) -> None:
        assert due(created=timedelta(minutes=30), now=NOW - timedelta(seconds=1)).latest is None
        assert due(created=timedelta(minutes=30)) == Due(NOW - timedelta(minutes=30), NOW)

    def test_the_last_job_counts_and_not_when_the_cron_job_was_made(self) -> None:
        status = {"lastScheduleTime": format_time(NOW)}
        assert due(created=9 * HOUR, status=status).latest is None

    def test_only_the_latest_of_missed_times_is_made_up_for(self) -> None:
        found = due(created=5 * HOUR, now=NOW + timedelta(minutes=10))
        assert (found.latest, found.missed, found.is_too_many) == (NOW, 5, False)

    def test_uneven_schedules_are_walked_to_the_latest_time(self) -> None:
        # Weekdays at 6, 10 and 14: NOW is a Thursday at noon.
        found = due("0 6-16/4 * * 1-5", created=timedelta(days=6))
        assert found.latest == NOW.replace(hour=10)

    def test_a_hundred_missed_times_are_too_many(self) -> None:
        assert not due(created=100 * HOUR).is_too_many
        assert due(created=101 * HOUR).is_too_many

    def test_a_deadline_limits_what_counts_as_missed(self) -> None:
        late: dict[str, Any] = {"created": 500 * HOUR, "startingDeadlineSeconds": 600}
        assert due(**late, now=NOW + timedelta(minutes=5)) == Due(NOW - timedelta(minutes=5), NOW)
        assert due(**late, now=NOW + timedelta(minutes=11)).latest is None

    def test_a_schedule_that_never_comes_is_refused(self) -> None:
        with pytest.raises(ScheduleError, match="less than 1 second"):
            due("59 23 31 2 *", created=HOUR)

    @pytest.mark.parametrize(
        ("created", "now", "seconds"),
        [
            (timedelta(minutes=10), NOW - timedelta(minutes=5), 5 * 60),
            (timedelta(minutes=10), NOW, 3600),
            (9 * HOUR, NOW + timedelta(minutes=59), 60),
        ],
    )
    def test_the_next_look_comes_a_moment_after_the_next_time(
        self, created: timedelta, now: datetime, seconds: int
    ) -> None:
        cron_job = CronJob(build_cron_job(created=created))
        wait = time_to_next(cron_job, parse_schedule(cron_job.schedule), now)
        assert wait == timedelta(seconds=seconds, milliseconds=100)


class TestJob:
    def test_its_name_follows_from_its_minute(self) -> None:
        cron_job = CronJob(build_cron_job())
        job = build_scheduled_job(cron_job, NOW, UTC)
        minutes = int(NOW.timestamp() / 60)
        assert job["metadata"]["name"] == f"tick-{minutes}"
        assert job["metadata"]["labels"] == {"from": "cron"}
        assert job["metadata"]["annotations"] == {
            "note": "x",
            "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T12:00:00Z",
        }
        assert job["metadata"]["ownerReferences"][0]["controller"] is True
        assert job["spec"] == cron_job.spec["jobTemplate"]["spec"]

    def test_its_time_is_told_in_the_zone_of_the_schedule(self) -> None:
        cron_job = CronJob(build_cron_job(timeZone="Asia/Tokyo"))
        job = build_scheduled_job(cron_job, NOW, ZoneInfo("Asia/Tokyo"))
        told = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert told == "2026-01-01T21:00:00+09:00"

    def test_zones_are_found_or_not(self) -> None:
        assert find_zone("") is UTC
        assert find_zone("Europe/Paris") == ZoneInfo("Europe/Paris")
        assert find_zone("Mars/Base") is None
        assert find_zone("../etc/passwd") is None


def finished(name: str, type: str, started: int, *, deleting: bool = False) -> Object:
    condition = {"type": type, "status": "True"}
    start = format_time(NOW + timedelta(minutes=started))
    completed = {"completionTime": start} if type == "Complete" else {}
    status = {"startTime": start, "conditions": [condition], **completed}
    return build_job(name, status=status, deleting=deleting)


class TestHistory:
    def test_the_oldest_jobs_beyond_each_limit_go(self) -> None:
        jobs = [
            *(finished(f"good{n}", "Complete", n) for n in (3, 1, 5, 2)),
            *(finished(f"bad{n}", "Failed", n) for n in (4, 6)),
            build_job("running"),
        ]
        gone = [job["metadata"]["name"] for job in plan_cleanup(CronJob(build_cron_job()), jobs)]
        assert gone == ["good1", "bad4"]

    def test_a_job_that_goes_already_is_not_deleted_again(self) -> None:
        jobs = [finished(f"j{n}", "Complete", n, deleting=n == 0) for n in range(4)]
        assert plan_cleanup(CronJob(build_cron_job()), jobs) == []

    def test_without_limits_all_stay(self) -> None:
        cron_job = build_cron_job()
        del cron_job["spec"]["successfulJobsHistoryLimit"]
        jobs = [finished(f"j{n}", "Complete", n) for n in range(9)]
        assert plan_cleanup(CronJob(cron_job), jobs) == []

    def test_the_last_success_never_goes_back(self) -> None:
        jobs = [finished("a", "Complete", 5), finished("b", "Failed", 9)]
        fresh = CronJob(build_cron_job())
        assert last_success(fresh, jobs) == format_time(NOW + timedelta(minutes=5))
        assert last_success(fresh, []) is None
        later = format_time(NOW + timedelta(minutes=7))
        known = CronJob(build_cron_job(status={"lastSuccessfulTime": later}))
        assert last_success(known, jobs) == later


def test_a_reference_names_the_very_job() -> None:
    job = build_job()
    job["metadata"]["resourceVersion"] = "7"
    assert build_job_reference(job) == {
        "kind": "Job",
        "namespace": "ns",
        "name": "work",
        "uid": "uid-work",
        "apiVersion": "batch/v1",
        "resourceVersion": "7",
    }
