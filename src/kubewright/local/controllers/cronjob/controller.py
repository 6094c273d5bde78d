"""The CronJob controller: read, decide, write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from email.utils import format_datetime

from kubewright.api import builtin
from kubewright.api.errors import (
    AlreadyExists,
    Invalid,
    KubewrightError,
    NamespaceTerminating,
    NotFound,
)
from kubewright.api.metadata import controller_of
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.cronjob.cron_job import (
    CronJob,
    build_job,
    build_job_reference,
    find_zone,
)
from kubewright.local.controllers.cronjob.due_time import Due, find_due, time_to_next
from kubewright.local.controllers.cronjob.history import finished_type, last_success, plan_cleanup
from kubewright.local.cron_schedule import Schedule, ScheduleError, parse_schedule
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.event_series import EventType
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result

NAME = "cronjob-controller"

_ABOUT_ZONES = (
    "is not officially supported, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_TOO_MANY = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)
_FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"


def build_cronjob_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that starts Jobs on schedules.

    Guarantee: at most one Job for a time. Its name follows from the time, so a start that is
    repeated after a crash or a lost answer is refused, and the Job found is taken into the status.
    """
    reconciler = CronJobReconciler()
    return Controller(
        NAME,
        builtin.CRON_JOB,
        with_recorder(reconciler.reconcile, recorder),
        owns=[builtin.JOB],
    )


class CronJobReconciler:
    """Reconciles CronJobs; what it remembers only tells that a schedule was changed."""

    def __init__(self) -> None:
        self._schedules: dict[NamespacedName, tuple[str, str, str]] = {}

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Start the Job that is due, and keep the status and the history of one CronJob."""
        obj = ctx.get(builtin.CRON_JOB, key)
        if obj is None:
            self._schedules.pop(key, None)
            return None
        cron_job = CronJob(obj)
        jobs = [job for job in ctx.list(builtin.JOB, owner=cron_job.uid) if _controls(obj, job)]
        look = CronJobLook(ctx, cron_job, jobs)
        return await look.run(is_rescheduled=self._note_schedule(cron_job))

    def _note_schedule(self, cron_job: CronJob) -> bool:
        """Tell whether the schedule is another one than at the last look."""
        schedule = (cron_job.uid, cron_job.schedule, cron_job.zone_name)
        before = self._schedules.get(cron_job.key)
        self._schedules[cron_job.key] = schedule
        return before is not None and before[0] == cron_job.uid and before != schedule


class CronJobLook:
    """One look at a CronJob: old Jobs go, ended ones are noted, the one that is due is made."""

    def __init__(self, ctx: Context, cron_job: CronJob, jobs: Sequence[Object]) -> None:
        self._ctx = ctx
        self._cron_job = cron_job
        self._jobs = jobs
        self._now = ctx.clock.now()
        self._status = dict(cron_job.status)
        self._active: list[Object] = list(self._status.get("active") or ())

    async def run(self, *, is_rescheduled: bool) -> Result | None:
        """Carry the look out; with a new schedule, nothing starts before its next time.

        Raises:
            KubewrightError: a request failed; what was done until then is in the status.
        """
        error, after = None, None
        for job in plan_cleanup(self._cron_job, self._jobs):
            await self._delete(job)
        try:
            await self._observe_jobs()
            after = await self._start(is_rescheduled=is_rescheduled)
        except KubewrightError as caught:
            error = caught
        await self._write()
        if error is not None:
            raise error
        return None if after is None else Result(after=after)

    async def _write(self) -> None:
        status = {**self._status, "active": self._active}
        if not self._active:
            del status["active"]
        if status != self._cron_job.status:
            await self._ctx.replace({**self._cron_job.obj, "status": status}, subresource="status")

    async def _observe_jobs(self) -> None:
        """Take ended and missing Jobs off the active ones, and report those nobody expected."""
        for job in self._jobs:
            metadata, ended = job["metadata"], finished_type(job)
            if self._is_active(metadata["uid"]):
                if ended is not None:
                    self._drop(metadata["uid"])
                    note = f"Saw completed job: {metadata['name']}, condition: {ended}"
                    self._tell("Normal", "SawCompletedJob", note)
            elif ended is None:
                await self._report_unexpected(job)
        if (last := last_success(self._cron_job, self._jobs)) is not None:
            self._status["lastSuccessfulTime"] = last
        known = {job["metadata"]["uid"] for job in self._jobs}
        for reference in [each for each in self._active if each.get("uid") not in known]:
            # The view of Jobs may be behind: only the server knows that one is missing.
            if await self._find_job(reference["name"]) is None:
                note = f"Active job went missing: {reference['name']}"
                self._tell("Normal", "MissingJob", note)
                self._drop(reference.get("uid"))

    async def _report_unexpected(self, job: Object) -> None:
        key = self._cron_job.key
        live = await self._ctx.client.get(builtin.CRON_JOB, key.name, namespace=key.namespace)
        active = (live.get("status") or {}).get("active") or ()
        if all(each.get("uid") != job["metadata"]["uid"] for each in active):
            note = "Saw a job that the controller did not create or forgot: "
            self._tell("Warning", "UnexpectedJob", note + job["metadata"]["name"])

    async def _start(self, *, is_rescheduled: bool) -> timedelta | None:
        """Make the Job that is due, if there is one; return when to look again."""
        if self._cron_job.is_deleting:
            return None
        zone = find_zone(self._cron_job.zone_name)
        if zone is None:
            name = self._cron_job.zone_name
            note = f"invalid timeZone: {_quote(name)}: unknown time zone {name}"
            self._tell("Warning", "UnknownTimeZone", note)
            return None
        if self._cron_job.is_suspended or (schedule := self._parse_schedule(zone)) is None:
            return None
        if not is_rescheduled:
            try:
                due = find_due(self._cron_job, schedule, self._now)
            except ScheduleError as error:
                note = f"invalid schedule: {self._cron_job.schedule} : {error}"
                self._tell("Warning", "InvalidSchedule", note)
                return None
            if due.latest is not None and self._may_start(due, due.latest):
                await self._start_job(due.latest, zone)
        return time_to_next(self._cron_job, schedule, self._now)

    def _parse_schedule(self, zone: tzinfo) -> Schedule | None:
        text = self._cron_job.schedule
        if "TZ" in text:
            note = f"CRON_TZ or TZ used in schedule {_quote(text)} {_ABOUT_ZONES}"
            self._tell("Warning", "UnsupportedSchedule", note)
        try:
            return parse_schedule(text, zone)
        except ScheduleError as error:
            note = f"unparseable schedule: {_quote(text)} : {error}"
            self._tell("Warning", "UnparseableSchedule", note)
            return None

    def _may_start(self, due: Due, latest: datetime) -> bool:
        """Tell whether the Job for a time is to be made, and say why not."""
        cron_job = self._cron_job
        if due.is_too_many:
            self._tell("Warning", "TooManyMissedTimes", _TOO_MANY)
        deadline = cron_job.starting_deadline
        if deadline is not None and latest + timedelta(seconds=deadline) < self._now:
            note = f"Missed scheduled time to start a job: {format_datetime(latest)}"
            self._tell("Warning", "MissSchedule", note)
            return False
        name = cron_job.job_name(latest)
        is_made = any(each.get("name") == name for each in self._active)
        if is_made or cron_job.last_schedule == latest:
            return False
        if cron_job.policy == "Forbid" and self._active:
            self._tell("Normal", "JobAlreadyActive", _FORBIDDEN)
            return False
        return True

    async def _start_job(self, due: datetime, zone: tzinfo) -> None:
        if self._cron_job.policy == "Replace":
            await self._replace_active()
        job = build_job(self._cron_job, due, zone)
        try:
            made = await self._ctx.create(job)
        except AlreadyExists:
            found = await self._find_job(job["metadata"]["name"])
            if found is None or not _controls(self._cron_job.obj, found):
                return
            # It was made before a crash, or by a request whose answer was lost.
            made = found
        except NamespaceTerminating:
            # No news to anybody: the CronJob goes as well.
            raise
        except KubewrightError as error:
            self._tell("Warning", "FailedCreate", f"Error creating job: {error}")
            if isinstance(error, Invalid):
                # Nothing to try before the template changes; yet the next time is looked at.
                return
            raise
        else:
            self._tell("Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        if not self._is_active(made["metadata"]["uid"]):
            self._active.append(build_job_reference(made))
        self._status["lastScheduleTime"] = format_time(due)

    async def _replace_active(self) -> None:
        """Delete the Jobs that still run.

        Raises:
            KubewrightError: one could not be deleted: the next must not start beside it.
        """
        for reference in list(self._active):
            try:
                job = await self._find_job(reference["name"])
            except KubewrightError as error:
                self._tell("Warning", "FailedGet", f"Get job: {error}")
                raise
            if job is not None and (failure := await self._delete(job)) is not None:
                raise failure
            self._drop(reference.get("uid"))

    async def _delete(self, job: Object) -> KubewrightError | None:
        metadata = job["metadata"]
        try:
            await self._ctx.delete(builtin.JOB, NamespacedName.of(job), uid=metadata["uid"])
        except NotFound:
            self._drop(metadata["uid"])
            return None
        except KubewrightError as error:
            self._tell("Warning", "FailedDelete", f"Deleted job: {error}")
            return error
        self._drop(metadata["uid"])
        self._tell("Normal", "SuccessfulDelete", f"Deleted job {metadata['name']}")
        return None

    async def _find_job(self, name: str) -> Object | None:
        namespace = self._cron_job.key.namespace
        try:
            return await self._ctx.client.get(builtin.JOB, name, namespace=namespace)
        except NotFound:
            return None

    def _is_active(self, uid: str) -> bool:
        return any(each.get("uid") == uid for each in self._active)

    def _drop(self, uid: str | None) -> None:
        self._active = [each for each in self._active if each.get("uid") != uid]

    def _tell(self, type: EventType, reason: str, note: str) -> None:
        self._ctx.recorder.event(self._cron_job.obj, type, reason, note)


def _controls(cron_job: Object, job: Object) -> bool:
    controller = controller_of(job)
    return controller is not None and controller["uid"] == cron_job["metadata"]["uid"]


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
