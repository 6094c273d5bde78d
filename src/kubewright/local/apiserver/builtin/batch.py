"""Rules of the batch group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.apiserver.builtin.checks import check_choice, check_numbers
from kubewright.local.apiserver.builtin.job_spec import (
    NAME_LABELS,
    UID_LABELS,
    validate_job,
    validate_job_template,
    validate_job_update,
)
from kubewright.local.apiserver.builtin.job_status import validate_job_status
from kubewright.local.apiserver.builtin.rules import Rules, Table, text_at
from kubewright.local.apiserver.builtin.table import (
    AGE,
    NONE,
    UNSET,
    column,
    container_cells,
    format_age,
    format_duration,
    format_selector,
    format_since,
)
from kubewright.local.apiserver.builtin.warnings import warn_at
from kubewright.local.apiserver.builtin.workload_rules import CONTAINERS, SELECTOR
from kubewright.local.apiserver.field_error import invalid, required
from kubewright.local.apiserver.formats import check_dns_label, length_fault
from kubewright.local.cron_schedule import ScheduleError, parse_schedule

# The names of its Jobs add eleven characters to that of a CronJob.
_MAX_NAME = 52
_MANY_INDEXES = 100_000
_MANY_AT_ONCE = 10_000
_TOO_MANY = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
    "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)


def _generate_selector(obj: Object) -> None:
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    template = spec["template"]["metadata"]
    labels = dict(template.get("labels") or {})
    for key in NAME_LABELS:
        labels.setdefault(key, metadata.get("name") or "")
    for key in UID_LABELS:
        labels.setdefault(key, metadata.get("uid") or "")
    template["labels"] = labels
    selector = spec.setdefault("selector", {})
    matched = dict(selector.get("matchLabels") or {})
    matched.setdefault(UID_LABELS[1], metadata.get("uid") or "")
    # A map: refusals show it in the order of its keys.
    selector["matchLabels"] = dict(sorted(matched.items()))
    # Read back from the store, a Job without labels takes those of its template.
    metadata["labels"] = metadata.get("labels") or dict(labels)


def _has(status: Object, kind: str) -> bool:
    return any(
        item.get("type") == kind and item.get("status") == "True"
        for item in status.get("conditions") or ()
    )


class _JobWarnings:
    """The warnings of a kind that has the spec of a Job at this path."""

    def __init__(self, *path: str) -> None:
        self._path = path
        self._of_template = warn_at(*path, "template")

    def __call__(self, obj: Object, old: Object | None) -> list[str]:
        texts = []
        faults = check_dns_label(obj["metadata"].get("name") or "")
        if old is None and faults:
            about = "this is used in Pod names and hostnames, which can result in surprising"
            advice = f"behavior; a DNS label is recommended: [{' '.join(faults)}]"
            texts.append(f"metadata.name: {about} {advice}")
        spec = obj
        for step in self._path:
            spec = spec.get(step) or {}
        many = (spec.get("completions") or 0) > _MANY_INDEXES
        at_once = (spec.get("parallelism") or 0) > _MANY_AT_ONCE
        if spec.get("completionMode") == "Indexed" and many and at_once:
            texts.append(f"{'.'.join(self._path)}: {_TOO_MANY}")
        return texts + self._of_template(obj, old)


_JOB_STATES = (
    "Complete",
    "Failed",
    "Terminating",
    "Suspended",
    "FailureTarget",
    "SuccessCriteriaMet",
)


def _job_state(obj: Object) -> str:
    for state in _JOB_STATES:
        if state == "Terminating":
            if "deletionTimestamp" in obj["metadata"]:
                return state
        elif _has(obj["status"], state):
            return state
    return "Running"


def _job_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    done, parallelism = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    lasted = ""
    if start := status.get("startTime"):
        end = status.get("completionTime")
        until = parse_time(end) if end else now
        lasted = format_duration(int((until - parse_time(start)).total_seconds()))
    selector = format_selector(spec.get("selector"))
    containers = container_cells(spec["template"])
    return [_job_state(obj), completions, lasted, format_age(obj, now), *containers, selector]


def _validate_cron_job(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    schedule = spec.get("schedule") or ""
    causes: list[Cause] = []
    if schedule:
        try:
            parse_schedule(schedule)
        except ScheduleError as fault:
            causes.append(invalid("spec.schedule", schedule, str(fault)))
        if "TZ" in schedule:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            causes.append(invalid("spec.schedule", schedule, detail))
    causes += check_numbers(spec, ("startingDeadlineSeconds",), "spec")
    if (zone := spec.get("timeZone")) is not None:
        causes += _validate_zone(zone)
    policy = spec.get("concurrencyPolicy")
    causes += check_choice(policy, ("Allow", "Forbid", "Replace"), "spec.concurrencyPolicy")
    causes += validate_job_template(spec.get("jobTemplate") or {}, "spec.jobTemplate")
    limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    causes += check_numbers(spec, limits, "spec")
    causes += [] if schedule else [required("spec.schedule")]
    name = obj["metadata"].get("name") or ""
    if not obj["metadata"].get("resourceVersion") and len(name) > _MAX_NAME:
        causes.append(invalid("metadata.name", name, length_fault(_MAX_NAME)))
    return causes


def _is_zone_part(part: str) -> bool:
    fits = re.fullmatch(r"[A-Za-z0-9._+][A-Za-z0-9._+-]{0,13}", part) is not None
    return fits and part not in (".", "..")


def _validate_zone(zone: str) -> list[Cause]:
    field = "spec.timeZone"
    if not zone:
        return [invalid(field, zone, "timeZone must be nil or non-empty string")]
    parts = zone.split("/")
    if not all(map(_is_zone_part, parts)):
        return [invalid(field, zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        return [invalid(field, zone, detail)]
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return [invalid(field, zone, f"unknown time zone {zone}")]
    return []


def _cron_job_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    last = status.get("lastScheduleTime")
    job = spec["jobTemplate"]["spec"]
    suspend = spec.get("suspend")
    return [
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        UNSET if suspend is None else str(suspend),
        len(status.get("active") or ()),
        format_since(last, now) if last else NONE,
        format_age(obj, now),
        *container_cells(job["template"]),
        format_selector(job.get("selector")),
    ]


RULES: Mapping[str, Rules] = {
    "Job": Rules(
        has_generation=True,
        prepare_for_create=_generate_selector,
        validate=validate_job,
        warnings=_JobWarnings("spec"),
        validate_update=validate_job_update,
        validate_status_update=validate_job_status,
        fields={"status.successful": text_at("status", "succeeded")},
        table=Table(
            (
                column("Status"),
                column("Completions"),
                column("Duration"),
                AGE,
                *CONTAINERS,
                SELECTOR,
            ),
            _job_cells,
        ),
    ),
    "CronJob": Rules(
        has_generation=True,
        validate=_validate_cron_job,
        warnings=_JobWarnings("spec", "jobTemplate", "spec"),
        table=Table(
            (
                column("Schedule"),
                column("Timezone"),
                column("Suspend", "boolean"),
                column("Active", "integer"),
                column("Last Schedule"),
                AGE,
                *CONTAINERS,
                SELECTOR,
            ),
            _cron_job_cells,
        ),
    ),
}
