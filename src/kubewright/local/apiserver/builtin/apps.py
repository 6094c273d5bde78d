"""Rules of the apps group."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.metadata import controller_of
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.builtin.checks import (
    check_at_most_hundred_percent,
    check_choice,
    check_immutable,
    check_int_or_percent,
    check_label,
    check_not_negative,
    check_numbers,
    check_selector,
    is_empty_selector,
    scaled,
    selects,
)
from kubewright.local.apiserver.builtin.core_storage import validate_claim_spec
from kubewright.local.apiserver.builtin.internal_form import show_internal
from kubewright.local.apiserver.builtin.pods import validate_pod_spec, validate_pod_template
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import (
    AGE,
    NONE,
    column,
    container_cells,
    format_age,
    format_labels,
    format_selector,
)
from kubewright.local.apiserver.builtin.warnings import warn_at
from kubewright.local.apiserver.builtin.workload_rules import (
    CONTAINERS,
    MISMATCH,
    REPLICAS,
    SELECTOR,
    check_counts,
    validate_endless,
    validate_template,
)
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required
from kubewright.local.apiserver.objectmeta import IMMUTABLE, dns_label

# Fields of a StatefulSet's pods that its controller sets itself.
_OWN = frozenset({"hostname", "subdomain"})
# The API server keeps a counter here that older clients read.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _check_workload_selector(spec: Object, kind: str) -> list[Cause]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    causes = check_selector(selector, "spec.selector")
    if is_empty_selector(selector):
        detail = f"empty selector is invalid for {kind}"
        causes.append(invalid("spec.selector", selector, detail))
    return causes


def _validate_workload_template(spec: Object, kind: str = "ReplicaSet") -> list[Cause]:
    template, selector = spec.get("template") or {}, spec.get("selector")
    if selector is not None and check_selector(selector, "spec.selector"):
        return [invalid("spec.selector", selector, "invalid label selector")]
    if selector is None:
        # Without a selector nothing is selected.
        labels = (template.get("metadata") or {}).get("labels")
        mismatch = [invalid("spec.template.metadata.labels", labels, MISMATCH)]
        causes = mismatch + validate_pod_template(template, "spec.template")
        return causes + validate_endless(template, "spec.template", kind)
    return validate_template(template, selector, "spec.template", kind)


def _validate_deployment(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes = check_not_negative(spec.get("replicas"), "spec.replicas")
    causes += _check_workload_selector(spec, "deployment")
    causes += _validate_workload_template(spec)
    causes += _validate_deployment_strategy(spec.get("strategy") or {})
    causes += check_numbers(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        causes += check_not_negative(deadline, "spec.progressDeadlineSeconds")
        if deadline <= (spec.get("minReadySeconds") or 0):
            detail = "must be greater than minReadySeconds"
            causes.append(invalid("spec.progressDeadlineSeconds", deadline, detail))
    return causes


def _validate_deployment_strategy(strategy: Object) -> list[Cause]:
    field = "spec.strategy"
    kind, update = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if update is None:
            return []
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{field}.rollingUpdate", detail)]
    if kind != "RollingUpdate":
        shown = show_internal(strategy, "DeploymentStrategy")
        return [not_supported(field, shown, ("Recreate", "RollingUpdate"))]
    update = update or {}
    place = f"{field}.rollingUpdate"
    unavailable, surge = update.get("maxUnavailable"), update.get("maxSurge")
    causes = check_int_or_percent(unavailable, f"{place}.maxUnavailable")
    causes += check_int_or_percent(surge, f"{place}.maxSurge")
    if scaled(unavailable) == 0 and scaled(surge) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        causes.append(invalid(f"{place}.maxUnavailable", unavailable, detail))
    return causes + check_at_most_hundred_percent(unavailable, f"{place}.maxUnavailable")


def _check_selector_kept(obj: Object, old: Object) -> list[Cause]:
    return check_immutable(obj["spec"], old["spec"], ("selector",), "spec")


def _raise_generation(obj: Object, old: Object) -> None:
    """A change of annotations counts too: the controller copies them to its ReplicaSets."""
    before = old["metadata"]
    if (obj["metadata"].get("annotations") or {}) != (before.get("annotations") or {}):
        obj["metadata"]["generation"] = int(before.get("generation") or 0) + 1


_DEPLOYMENT_COUNTS = ("updatedReplicas", "readyReplicas", "availableReplicas")


def _validate_deployment_status(obj: Object, old: Object) -> list[Cause]:
    status = obj["status"]
    causes = check_not_negative(status.get("observedGeneration"), "status.observedGeneration")
    keys = ("replicas", *_DEPLOYMENT_COUNTS, "unavailableReplicas", "terminatingReplicas")
    causes += check_numbers(status, (*keys, "collisionCount"), "status")
    total = status.get("replicas") or 0
    causes += [
        invalid(f"status.{key}", status.get(key) or 0, "cannot be greater than status.replicas")
        for key in _DEPLOYMENT_COUNTS
        if (status.get(key) or 0) > total
    ]
    return causes + _check_available(status)


def _check_available(status: Object) -> list[Cause]:
    ready, available = status.get("readyReplicas") or 0, status.get("availableReplicas") or 0
    if available > ready:
        detail = "cannot be greater than readyReplicas"
        return [invalid("status.availableReplicas", available, detail)]
    return []


def _deployment_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    counts = [status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0]
    selector = format_selector(spec.get("selector"))
    containers = container_cells(spec["template"])
    return [ready, *counts, format_age(obj, now), *containers, selector]


def _validate_replica_set(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes = check_numbers(spec, ("replicas", "minReadySeconds"), "spec")
    causes += _check_workload_selector(spec, "deployment")
    return causes + _validate_workload_template(spec)


def _validate_replica_set_status(obj: Object, old: Object) -> list[Cause]:
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return check_counts(obj["status"], parts) + _check_available(obj["status"])


def _replica_set_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    counts = [
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
    ]
    selector = format_selector(spec.get("selector"))
    return [*counts, format_age(obj, now), *container_cells(spec["template"]), selector]


def _validate_daemon_set(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes = _check_workload_selector(spec, "daemonset")
    causes += _validate_workload_template(spec, "DaemonSet")
    causes += check_numbers(spec, ("minReadySeconds",), "spec")
    causes += _validate_daemon_strategy(spec.get("updateStrategy") or {})
    return causes + check_numbers(spec, ("revisionHistoryLimit",), "spec")


def _validate_daemon_strategy(strategy: Object) -> list[Cause]:
    field, kind = "spec.updateStrategy", strategy.get("type")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(f"{field}.type", kind, ("RollingUpdate", "OnDelete"))]
    update, place = strategy.get("rollingUpdate") or {}, f"{field}.rollingUpdate"
    unavailable, surge = update.get("maxUnavailable"), update.get("maxSurge")
    causes = check_int_or_percent(unavailable, f"{place}.maxUnavailable")
    causes += check_at_most_hundred_percent(unavailable, f"{place}.maxUnavailable")
    causes += check_int_or_percent(surge, f"{place}.maxSurge")
    causes += check_at_most_hundred_percent(surge, f"{place}.maxSurge")
    if scaled(unavailable) and scaled(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid(f"{place}.maxSurge", surge, detail))
    elif not scaled(unavailable) and not scaled(surge):
        detail = "cannot be 0 when maxSurge is 0"
        causes.append(required(f"{place}.maxUnavailable", detail))
    return causes


def _default_generation(obj: Object) -> None:
    obj["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "1")


def _daemon_set_update(obj: Object, old: Object) -> None:
    before = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 1)
    changed = obj["spec"].get("template") != old["spec"].get("template")
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(before + changed)}


def _daemon_set_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    counts = [status.get(key) or 0 for key in (*keys, "updatedNumberScheduled", "numberAvailable")]
    node_selector = format_labels((spec["template"].get("spec") or {}).get("nodeSelector"))
    selector = format_selector(spec.get("selector"))
    containers = container_cells(spec["template"])
    return [*counts, node_selector, format_age(obj, now), *containers, selector]


def _default_claims(obj: Object) -> None:
    for claim in obj["spec"].get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")


def _validate_stateful_set(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    policy = spec.get("podManagementPolicy")
    causes: list[Cause] = []
    if policy not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        causes.append(invalid("spec.podManagementPolicy", policy, detail))
    causes += _validate_stateful_strategy(spec.get("updateStrategy") or {})
    causes += _validate_retention(spec.get("persistentVolumeClaimRetentionPolicy") or {})
    if "resourceVersion" not in obj["metadata"]:
        # What was stored once is not judged again.
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            place = f"spec.volumeClaimTemplates[{index}].spec"
            causes += validate_claim_spec(claim.get("spec") or {}, place)
    causes += check_numbers(spec, ("replicas", "minReadySeconds"), "spec")
    causes += check_numbers(spec.get("ordinals") or {}, ("start",), "spec.ordinals")
    if name := spec.get("serviceName"):
        causes += check_label(name, "spec.serviceName")
    causes += _check_workload_selector(spec, "statefulset")
    return causes + _validate_stateful_template(spec)


def _validate_stateful_template(spec: Object) -> list[Cause]:
    # Claims are volumes that only the pods have: the template may mount them.
    template, field = spec.get("template") or {}, "spec.template"
    labels = (template.get("metadata") or {}).get("labels")
    causes: list[Cause] = []
    selector = spec.get("selector")
    if selector is None or not _selects_or_empty(selector, labels or {}):
        causes.append(invalid(f"{field}.metadata.labels", labels, MISMATCH))
    claims = frozenset(_claim_names(spec))
    pods = {key: value for key, value in (template.get("spec") or {}).items() if key not in _OWN}
    pods["volumes"] = [v for v in pods.get("volumes") or () if v.get("name") not in claims]
    causes += validate_pod_spec(pods, f"{field}.spec", extra_volumes=claims)
    return causes + validate_endless(template, field)


def _claim_names(spec: Object) -> list[str]:
    claims = spec.get("volumeClaimTemplates") or ()
    return [claim["metadata"].get("name") or "" for claim in claims]


def _selects_or_empty(selector: Object, labels: Mapping[str, str]) -> bool:
    return is_empty_selector(selector) or selects(selector, labels)


def _validate_stateful_strategy(strategy: Object) -> list[Cause]:
    field, kind, update = "spec.updateStrategy", strategy.get("type"), strategy.get("rollingUpdate")
    if not kind:
        return [required(field)]
    if kind == "OnDelete":
        if update is None:
            return []
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        shown = show_internal(update, "StatefulSetUpdate")
        return [invalid(f"{field}.rollingUpdate", shown, detail)]
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": update}
        return [invalid(field, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    update, place = update or {}, f"{field}.rollingUpdate"
    causes = check_numbers(update, ("partition",), place)
    unavailable = update.get("maxUnavailable")
    if unavailable is None:
        return causes
    faults = check_int_or_percent(unavailable, f"{place}.maxUnavailable")
    if not faults and scaled(unavailable) == 0:
        causes.append(invalid(f"{place}.maxUnavailable", unavailable, "cannot be 0"))
    causes += faults
    return causes + check_at_most_hundred_percent(unavailable, f"{place}.maxUnavailable")


def _validate_retention(policy: Object) -> list[Cause]:
    field = "spec.persistentVolumeClaimRetentionPolicy"
    causes: list[Cause] = []
    for key in ("whenDeleted", "whenScaled"):
        causes += check_choice(policy.get(key), ("Retain", "Delete"), f"{field}.{key}")
    return causes


def _validate_stateful_set_update(obj: Object, old: Object) -> list[Cause]:
    keys = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")
    causes = check_immutable(obj["spec"], old["spec"], keys, "spec")
    claims = "spec.volumeClaimTemplates"
    shown = [
        show_internal(claim, "PersistentVolumeClaim")
        for claim in obj["spec"].get("volumeClaimTemplates") or ()
    ]
    return [
        invalid(claims, shown, "field is immutable") if cause.field == claims else cause
        for cause in causes
    ]


def _validate_stateful_set_status(obj: Object, old: Object) -> list[Cause]:
    parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    return check_counts(obj["status"], parts) + _check_available(obj["status"])


def _stateful_set_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [ready, format_age(obj, now), *container_cells(spec["template"])]


def _validate_revision(obj: Object) -> list[Cause]:
    causes = check_not_negative(obj.get("revision") or 0, "revision")
    if obj.get("data") is None:
        causes.append(required("data", "data is mandatory"))
    return causes


def _validate_revision_update(obj: Object, old: Object) -> list[Cause]:
    if obj.get("data") != old.get("data"):
        return [invalid("data", deepcopy(obj.get("data")), IMMUTABLE)]
    return []


def _revision_cells(obj: Object, now: datetime) -> list[Any]:
    owner, name = controller_of(obj), NONE
    if owner is not None:
        group = GroupVersionKind.of(owner).group
        kind = owner.get("kind", "").lower()
        name = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [name, obj.get("revision") or 0, format_age(obj, now)]


RULES: Mapping[str, Rules] = {
    "ControllerRevision": Rules(
        validate=_validate_revision,
        validate_update=_validate_revision_update,
        table=Table((column("Controller"), column("Revision"), AGE), _revision_cells),
    ),
    "DaemonSet": Rules(
        has_generation=True,
        default=_default_generation,
        prepare_for_update=_daemon_set_update,
        validate=_validate_daemon_set,
        warnings=warn_at("spec", "template"),
        validate_update=_check_selector_kept,
        table=Table(
            (
                column("Desired", "integer"),
                column("Current", "integer"),
                column("Ready", "integer"),
                column("Up-to-date", "integer"),
                column("Available", "integer"),
                column("Node Selector"),
                AGE,
                *CONTAINERS,
                SELECTOR,
            ),
            _daemon_set_cells,
        ),
    ),
    "Deployment": Rules(
        has_generation=True,
        prepare_for_update=_raise_generation,
        validate=_validate_deployment,
        warnings=warn_at("spec", "template"),
        validate_update=_check_selector_kept,
        validate_status_update=_validate_deployment_status,
        status_resets=(("spec",), ("metadata", "labels")),
        table=Table(
            (
                column("Ready"),
                column("Up-to-date"),
                column("Available"),
                AGE,
                *CONTAINERS,
                SELECTOR,
            ),
            _deployment_cells,
        ),
    ),
    "ReplicaSet": Rules(
        has_generation=True,
        validate=_validate_replica_set,
        warnings=warn_at("spec", "template"),
        validate_update=_check_selector_kept,
        validate_status_update=_validate_replica_set_status,
        table=Table((*REPLICAS, AGE, *CONTAINERS, SELECTOR), _replica_set_cells),
    ),
    "StatefulSet": Rules(
        has_generation=True,
        name_rule=dns_label,
        default=_default_claims,
        validate=_validate_stateful_set,
        warnings=warn_at("spec", "template"),
        validate_update=_validate_stateful_set_update,
        validate_status_update=_validate_stateful_set_status,
        table=Table((column("Ready"), AGE, *CONTAINERS), _stateful_set_cells),
    ),
}
