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
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_immutable,
    check_numbers,
    check_selector,
    selects,
)
from kubewright.local.apiserver.builtin.internal_form import show_internal
from kubewright.local.apiserver.builtin.pod_failure_policy import validate_pod_failure_policy
from kubewright.local.apiserver.builtin.pods import validate_pod_template
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
from kubewright.local.apiserver.builtin.workload_rules import CONTAINERS, MISMATCH, SELECTOR
from kubewright.local.apiserver.field_error import invalid, not_supported, required
from kubewright.local.apiserver.formats import check_dns_subdomain, length_fault
from kubewright.local.cron_schedule import ScheduleError, parse_schedule

_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_INDEXED_ONLY = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
_ENDING = 'valid values: "OnFailure", "Never"'
_FINISHED = ("Complete", "Failed")


def cron_job_name(name: str) -> list[str]:
    """Check the name of a CronJob: its Jobs add eleven characters to it."""
    faults = check_dns_subdomain(name)
    return [*faults, length_fault(52)] if len(name) > 52 else faults


def _generate_selector(obj: Object) -> None:
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    template = spec["template"]["metadata"]
    labels = dict(template.get("labels") or {})
    for key in _NAME_LABELS:
        labels.setdefault(key, metadata.get("name") or "")
    for key in _UID_LABELS:
        labels.setdefault(key, metadata.get("uid") or "")
    template["labels"] = labels
    selector = spec.setdefault("selector", {})
    matched = dict(selector.get("matchLabels") or {})
    matched.setdefault(_UID_LABELS[1], metadata.get("uid") or "")
    # A map: refusals show it in the order of its keys.
    selector["matchLabels"] = dict(sorted(matched.items()))
    # Read back from the store, a Job without labels takes those of its template.
    metadata["labels"] = metadata.get("labels") or dict(labels)


def validate_job_spec(spec: Object, field: str) -> list[Cause]:
    """Return what is wrong with the spec of a Job, but for its selector."""
    causes = check_numbers(spec, _NUMBERS, field)
    mode = spec.get("completionMode") or "NonIndexed"
    if mode not in ("NonIndexed", "Indexed"):
        causes.append(not_supported(f"{field}.completionMode", mode, ("NonIndexed", "Indexed")))
    causes += validate_pod_failure_policy(spec, f"{field}.podFailurePolicy")
    limit = spec.get("maxFailedIndexes")
    if mode == "Indexed" and limit is not None and limit > (spec.get("completions") or 0):
        detail = "must be less than or equal to completions"
        causes.append(invalid(f"{field}.maxFailedIndexes", limit, detail))
    if mode == "Indexed" and spec.get("completions") is None:
        detail = f"when completion mode is {mode}"
        causes.append(required(f"{field}.completions", detail))
    if mode != "Indexed":
        causes += [
            invalid(f"{field}.{key}", _shown(key, spec[key]), "requires indexed completion mode")
            for key in _INDEXED_ONLY
            if spec.get(key) is not None
        ]
    replacement = spec.get("podReplacementPolicy")
    choices = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    causes += check_choice(replacement, choices, f"{field}.podReplacementPolicy")
    template = spec.get("template") or {}
    causes += validate_pod_template(template, f"{field}.template")
    return causes + _validate_restart_policy(spec, template, f"{field}.template.spec.restartPolicy")


def _shown(key: str, value: Any) -> Any:
    return show_internal(value, "SuccessPolicy") if key == "successPolicy" else value


def _validate_restart_policy(spec: Object, template: Object, field: str) -> list[Cause]:
    policy = (template.get("spec") or {}).get("restartPolicy") or ""
    if policy in ("", "Always"):
        return [required(field, _ENDING)]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(field, policy, ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(field, policy, detail)]
    return []


def _validate_job(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes = validate_job_spec(spec, "spec")
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels")
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        causes += check_selector(selector, "spec.selector")
    if not spec.get("manualSelector") and not obj["metadata"].get("resourceVersion"):
        causes += _check_generated(selector or {}, obj["metadata"].get("uid") or "")
    if selector is None or not selects(selector, labels or {}):
        causes.append(invalid("spec.template.metadata.labels", labels, MISMATCH))
    return causes


def _check_generated(selector: Object, uid: str) -> list[Cause]:
    """Refuse a selector that was not generated, though nobody said that it should not be."""
    if selector.get("matchLabels") == {_UID_LABELS[1]: uid} and len(selector) == 1:
        return []
    return [invalid("spec.selector", selector, "`selector` not auto-generated")]


def _is_template_open(old: Object) -> bool:
    """Tell whether the template may still change: a suspended Job that never started."""
    return bool(old["spec"].get("suspend")) and not (old.get("status") or {}).get("startTime")


_JOB_IMMUTABLE = (
    "selector",
    "template",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def _validate_job_update(obj: Object, old: Object) -> list[Cause]:
    new_spec, old_spec = obj["spec"], old["spec"]
    causes: list[Cause] = []
    if new_spec.get("completions") != old_spec.get("completions"):
        causes += _check_completions(new_spec, old_spec)
    if _is_template_open(old):
        new_spec = {**new_spec, "template": _close_template(new_spec, old_spec)}
    return causes + check_immutable(new_spec, old_spec, _JOB_IMMUTABLE, "spec")


def _close_template(new_spec: Object, old_spec: Object) -> Object:
    """Take what may change in the template of a suspended Job from the old one: where pods go.

    These are the scheduling directives (KEP-2926) and the containers' resources (KEP-5440).
    """
    new, old = new_spec["template"], old_spec["template"]
    metadata = {**(new.get("metadata") or {})}
    pod = {**new["spec"]}
    for target, source, fields in (
        (metadata, old.get("metadata") or {}, ("labels", "annotations")),
        (pod, old["spec"], ("nodeSelector", "tolerations", "schedulingGates")),
    ):
        for field in fields:
            target.pop(field, None)
            target |= {field: source[field]} if field in source else {}
    affinity = {**(pod.pop("affinity", None) or {})}
    affinity.pop("nodeAffinity", None)
    before = old["spec"].get("affinity") or {}
    affinity |= {"nodeAffinity": before["nodeAffinity"]} if "nodeAffinity" in before else {}
    pod |= {"affinity": affinity} if affinity or "affinity" in old["spec"] else {}
    resources = {item["name"]: item.get("resources") or {} for item in old["spec"]["containers"]}
    pod["containers"] = [
        {**item, "resources": resources.get(item["name"], {})} for item in pod["containers"]
    ]
    return {**new, "metadata": metadata, "spec": pod}


def _check_completions(new: Object, old: Object) -> list[Cause]:
    if new.get("completionMode") != "Indexed":
        return check_immutable(new, old, ("completions",), "spec")
    if new.get("completions") != new.get("parallelism"):
        detail = "may only be modified in tandem with spec.parallelism"
        return [invalid("spec.completions", new.get("completions"), detail)]
    return []


def _has(status: Object, kind: str) -> bool:
    return any(
        item.get("type") == kind and item.get("status") == "True"
        for item in status.get("conditions") or ()
    )


def _validate_job_status(obj: Object, old: Object) -> list[Cause]:
    status = obj["status"]
    causes = check_numbers(
        status, ("active", "succeeded", "failed", "ready", "terminating"), "status"
    )
    complete = _has(status, "Complete")
    if complete and not status.get("completionTime"):
        detail = "completionTime is required for Complete jobs"
        causes.append(required("status.completionTime", detail))
    if status.get("completionTime") and not complete:
        detail = "completionTime cannot be set for non-finished jobs"
        causes.append(invalid("status.completionTime", status["completionTime"], detail))
    if complete and _has(status, "Failed"):
        conditions = status.get("conditions")
        detail = "cannot set Complete=True and Failed=true conditions"
        causes.append(invalid("status.conditions", conditions, detail))
    causes += _check_interim(status, old.get("status") or {}, "Complete", "SuccessCriteriaMet")
    return causes + _check_interim(status, old.get("status") or {}, "Failed", "FailureTarget")


def _check_interim(status: Object, old: Object, final: str, interim: str) -> list[Cause]:
    if _has(status, final) and not _has(old, final) and not _has(status, interim):
        detail = f"cannot set {final}=True condition without the {interim}=true condition"
        # The message names no value, though the error has one.
        return [Cause("FieldValueInvalid", f"Invalid value: {detail}", "status.conditions")]
    return []


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
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    causes += validate_job_spec(job, "spec.jobTemplate.spec")
    limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    causes += check_numbers(spec, limits, "spec")
    return causes if schedule else [*causes, required("spec.schedule")]


def _validate_zone(zone: str) -> list[Cause]:
    field = "spec.timeZone"
    if not zone:
        return [invalid(field, zone, "timeZone must be nil or non-empty string")]
    parts = zone.split("/")
    if not all(re.fullmatch(r"[A-Za-z0-9._+][A-Za-z0-9._+-]{0,}", part) for part in parts):
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
        validate=_validate_job,
        warnings=warn_at("spec", "template"),
        validate_update=_validate_job_update,
        validate_status_update=_validate_job_status,
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
        name_rule=cron_job_name,
        validate=_validate_cron_job,
        warnings=warn_at("spec", "jobTemplate", "spec", "template"),
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
