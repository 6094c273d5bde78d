"""Validation of the spec of a Job, also where a CronJob has it as a template."""

from __future__ import annotations

import re
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_immutable,
    check_numbers,
    check_selector,
    selects,
    with_faults,
)
from kubewright.local.apiserver.builtin.job_success_policy import validate_success_policy
from kubewright.local.apiserver.builtin.pod_failure_policy import validate_pod_failure_policy
from kubewright.local.apiserver.builtin.pods import validate_pod_template
from kubewright.local.apiserver.builtin.workload_rules import MISMATCH
from kubewright.local.apiserver.field_error import invalid, not_supported, required, too_long
from kubewright.local.apiserver.formats import check_dns_label, check_dns_subdomain, pattern_fault

NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")

_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_ENDING = 'valid values: "OnFailure", "Never"'
_MANY = 100_000
_MOST_BESIDE_MANY = 10_000
_BESIDE_MANY = (
    f"must be less than or equal to {_MOST_BESIDE_MANY} when completions are above {_MANY} and used"
    " with backoff limit per index"
)
_MAX_MANAGER = 63
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_IMMUTABLE = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def validate_job(obj: Object) -> list[Cause]:
    """Return what is wrong with a Job but for its status."""
    spec, metadata = obj["spec"], obj["metadata"]
    is_new = not metadata.get("resourceVersion")
    causes = _check_generated(obj) if is_new and not spec.get("manualSelector") else []
    causes += validate_job_spec(spec, "spec")
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels")
    faults = check_selector(selector, "spec.selector")
    causes += [required("spec.selector")] if selector is None else faults
    if selector is None or not (faults or selects(selector, labels or {})):
        causes.append(invalid("spec.template.metadata.labels", labels, MISMATCH))
    return causes + _validate_host_names(spec, metadata.get("name") or "")


def _check_generated(obj: Object) -> list[Cause]:
    """Refuse labels and selectors that differ from those that are generated."""
    metadata, selector = obj["metadata"], obj["spec"].get("selector")
    if selector is None:
        return []
    uid, name = metadata.get("uid") or "", metadata.get("name") or ""
    labels = obj["spec"]["template"]["metadata"].get("labels") or {}
    pairs = ((UID_LABELS[0], uid), (NAME_LABELS[0], name), (UID_LABELS[1], uid))
    expected = dict([*pairs, (NAME_LABELS[1], name)])
    shown = dict(sorted(labels.items()))
    causes = []
    for key, value in expected.items():
        place, detail = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in labels:
            causes.append(required(place, detail))
        elif labels[key] != value:
            causes.append(invalid(place, shown, detail))
    if not selects(selector, expected):
        causes.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return causes


def _validate_host_names(spec: Object, name: str) -> list[Cause]:
    """Refuse a name that leaves no room for the index in the host names of pods."""
    completions = spec.get("completions") or 0
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return []
    longest = f"{name}-{completions - 1}"
    detail = f"will not able to create pod with invalid DNS label: {longest}"
    return [invalid("metadata.name", name, detail)] if check_dns_label(longest) else []


def validate_job_spec(spec: Object, field: str) -> list[Cause]:
    """Return what is wrong with the spec of a Job, but for its selector."""
    causes = check_numbers(spec, _NUMBERS, field)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        detail = "when maxFailedIndexes is specified"
        causes.append(required(f"{field}.backoffLimitPerIndex", detail))
    causes += _validate_manager(spec.get("managedBy"), f"{field}.managedBy")
    mode = spec.get("completionMode") or "NonIndexed"
    if mode not in _MODES:
        causes.append(not_supported(f"{field}.completionMode", mode, _MODES))
    causes += _validate_indexed(spec, field) if mode == "Indexed" else []
    if mode == "NonIndexed":
        causes += [
            invalid(f"{field}.{key}", spec[key], "requires indexed completion mode")
            for key in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(key) is not None
        ]
    causes += validate_pod_failure_policy(spec, f"{field}.podFailurePolicy")
    causes += validate_success_policy(spec, f"{field}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    choices = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    causes += check_choice(replacement, choices, f"{field}.podReplacementPolicy")
    template = spec.get("template") or {}
    causes += validate_pod_template(template, f"{field}.template")
    return causes + _validate_restart_policy(spec, template, f"{field}.template.spec.restartPolicy")


def _validate_manager(name: str | None, field: str) -> list[Cause]:
    """Check the name of another controller: `example.com/queue`."""
    if name is None:
        return []
    if not name:
        return [required(field)]
    causes = []
    host, slash, path = name.partition("/")
    if not (host and slash and path):
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        causes.append(invalid(field, name, detail))
    else:
        causes += with_faults(field, host, check_dns_subdomain(host))
        if re.fullmatch(_HTTP_PATH, path) is None:
            causes.append(invalid(field, path, pattern_fault("Invalid path", _HTTP_PATH)))
    return [*causes, too_long(field, _MAX_MANAGER)] if len(name) > _MAX_MANAGER else causes


def _validate_indexed(spec: Object, field: str) -> list[Cause]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    limit = spec.get("maxFailedIndexes")
    causes = []
    if completions is None:
        causes.append(required(f"{field}.completions", "when completion mode is Indexed"))
    if parallelism > _MANY:
        detail = f"must be less than or equal to {_MANY} when completion mode is Indexed"
        causes.append(invalid(f"{field}.parallelism", parallelism, detail))
    place = f"{field}.maxFailedIndexes"
    if completions is not None and limit is not None and limit > completions:
        causes.append(invalid(place, limit, "must be less than or equal to completions"))
    if limit is not None and limit > _MANY:
        causes.append(invalid(place, limit, f"must be less than or equal to {_MANY}"))
    if (completions or 0) <= _MANY or spec.get("backoffLimitPerIndex") is None:
        return causes
    if limit is None:
        causes.append(required(place, f"must be specified when completions is above {_MANY}"))
    if parallelism > _MOST_BESIDE_MANY:
        causes.append(invalid(f"{field}.parallelism", parallelism, _BESIDE_MANY))
    if limit is not None and limit > _MOST_BESIDE_MANY:
        causes.append(invalid(place, limit, _BESIDE_MANY))
    return causes


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


def validate_job_template(template: Object, field: str) -> list[Cause]:
    """Return what is wrong with the Job that a CronJob makes; its selector is generated."""
    spec = template.get("spec") or {}
    causes = validate_job_spec(spec, f"{field}.spec")
    if (selector := spec.get("selector")) is not None:
        detail = "`selector` will be auto-generated"
        causes.append(invalid(f"{field}.spec.selector", selector, detail))
    if spec.get("manualSelector"):
        place = f"{field}.spec.manualSelector"
        causes.append(not_supported(place, True, ("nil", "false")))
    return causes


def validate_job_update(obj: Object, old: Object) -> list[Cause]:
    """Return what is wrong with a change of the spec of a Job."""
    new_spec, old_spec = obj["spec"], old["spec"]
    causes = _check_completions(new_spec, old_spec)
    causes += check_immutable(new_spec, old_spec, ("selector",), "spec")
    if _is_template_open(old):
        pod = _close_pod(new_spec["template"]["spec"], old_spec["template"]["spec"])
        before = {"spec": old_spec["template"]["spec"]}
        causes += check_immutable({"spec": pod}, before, ("spec",), "spec.template")
    else:
        causes += check_immutable(new_spec, old_spec, ("template",), "spec")
    return causes + check_immutable(new_spec, old_spec, _IMMUTABLE, "spec")


def _check_completions(new: Object, old: Object) -> list[Cause]:
    if new.get("completionMode") != "Indexed":
        return check_immutable(new, old, ("completions",), "spec")
    completions = new.get("completions")
    if completions in (None, old.get("completions"), new.get("parallelism")):
        return []
    detail = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", completions, detail)]


def _is_template_open(old: Object) -> bool:
    """Tell whether the template may change: the Job is suspended, and has no pods of it."""
    status = old.get("status") or {}
    suspended = any(
        item.get("type") == "Suspended" and item.get("status") == "True"
        for item in status.get("conditions") or ()
    )
    rests = suspended or not status.get("startTime")
    return bool(old["spec"].get("suspend")) and rests and not status.get("active")


def _close_pod(new: Object, old: Object) -> Object:
    """Take what may change in the pods of a suspended Job from the old spec: where pods go.

    These are the scheduling directives (KEP-2926) and the containers' resources (KEP-5440).
    """
    pod = {**new}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        pod.pop(field, None)
        pod |= {field: old[field]} if field in old else {}
    affinity = {**(pod.pop("affinity", None) or {})}
    affinity.pop("nodeAffinity", None)
    before = old.get("affinity") or {}
    affinity |= {"nodeAffinity": before["nodeAffinity"]} if "nodeAffinity" in before else {}
    pod |= {"affinity": affinity} if affinity or "affinity" in old else {}
    for field in ("initContainers", "containers"):
        if field in pod:
            pod[field] = _close_containers(pod[field], old.get(field) or [])
    return pod


def _close_containers(new: list[Any], old: list[Any]) -> list[Any]:
    resources = {item["name"]: item.get("resources") or {} for item in old}
    return [{**item, "resources": resources.get(item["name"], {})} for item in new]
