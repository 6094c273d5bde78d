"""The status of a Deployment: counts, conditions, and when to look again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubewright.api.conditions import ConditionStatus, find_condition
from kubewright.api.resource import Object
from kubewright.api.time import format_time, parse_time
from kubewright.local.controllers.deployment.deployment import Deployment
from kubewright.local.controllers.deployment.replica_set import ReplicaSet, total

PROGRESSING = "Progressing"
AVAILABLE = "Available"
REPLICA_FAILURE = "ReplicaFailure"

COMPLETE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"

REPORT_PATIENCE = timedelta(seconds=2)
"""How long a Deployment waits for the first report of a ReplicaSet that it has made."""

Conditions = list[Object]


def build_condition(
    type: str, status: ConditionStatus, reason: str, message: str, now: datetime
) -> Object:
    """Build a Deployment's condition, which also tells when it was last updated."""
    moment = format_time(now)
    return {
        "type": type,
        "status": status,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


def set_condition(
    conditions: Sequence[Object], condition: Object, *, renew: bool = False
) -> Conditions:
    """Return the conditions with one set.

    The same status for the same reason changes nothing unless it is to be renewed. What changes
    moves to the end; `lastTransitionTime` stays while the status is the same.
    """
    before = find_condition(conditions, condition["type"])
    if before is not None and before["status"] == condition["status"]:
        if before["reason"] == condition["reason"] and not renew:
            return list(conditions)
        condition = {**condition, "lastTransitionTime": before["lastTransitionTime"]}
    return [*remove_condition(conditions, condition["type"]), condition]


def remove_condition(conditions: Sequence[Object], type: str) -> Conditions:
    """Return the conditions without those of a type."""
    return [condition for condition in conditions if condition["type"] != type]


def pause_conditions(deployment: Deployment, conditions: Conditions, now: datetime) -> Conditions:
    """Report that a Deployment was paused or resumed.

    A missed deadline is not overwritten: who paused to look into it should still see it.
    """
    if deployment.progress_deadline is None:
        return conditions
    before = find_condition(conditions, PROGRESSING)
    reason = before["reason"] if before else ""
    if reason == TIMED_OUT:
        return conditions
    if deployment.is_paused and reason != PAUSED:
        paused = build_condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)
        return set_condition(conditions, paused)
    if not deployment.is_paused and reason == PAUSED:
        resumed = build_condition(
            PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now
        )
        return set_condition(conditions, resumed)
    return conditions


def build_status(
    deployment: Deployment,
    conditions: Conditions,
    everyone: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
) -> Object:
    """Build the status from what the ReplicaSets report; counts of 0 are left out, as in the API.

    Only `terminatingReplicas` is written when it is 0.
    """
    available = sum(replica_set.status("availableReplicas") for replica_set in everyone)
    counts = {
        "observedGeneration": deployment.generation,
        "replicas": sum(replica_set.current for replica_set in everyone),
        "updatedReplicas": new.current if new else 0,
        "readyReplicas": sum(replica_set.status("readyReplicas") for replica_set in everyone),
        "availableReplicas": available,
        "unavailableReplicas": max(total(everyone) - available, 0),
        "collisionCount": deployment.count("collisionCount"),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = sum(r.status("terminatingReplicas") for r in everyone)
    status["conditions"] = set_condition(
        conditions, _availability(available >= deployment.min_available, now)
    )
    return status


def awaits_report(new: ReplicaSet, now: datetime) -> bool:
    """Tell whether the current ReplicaSet was made just now and has not said anything yet.

    Counts in between would show a rollout that lost all its updated pods, and the first pod of the
    new template would then be progress. kube-controller-manager does not write them either: the
    write of the new revision makes the next one conflict.
    """
    if new.replicas == 0 or new.current > 0:
        return False
    status = new.obj.get("status") or {}
    if find_condition(status.get("conditions") or (), REPLICA_FAILURE) is not None:
        return False
    created = new.obj["metadata"].get("creationTimestamp")
    return created is None or now - parse_time(created) < REPORT_PATIENCE


def hold_counts(deployment: Deployment, conditions: Conditions) -> Object:
    """Build the status that tells what happened and keeps the counts as they were."""
    return {**deployment.status, "conditions": conditions}


def _availability(enough: bool, now: datetime) -> Object:
    if enough:
        return build_condition(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            now,
        )
    return build_condition(
        AVAILABLE,
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
        now,
    )


def progress_conditions(
    deployment: Deployment, status: Object, new: ReplicaSet | None, now: datetime
) -> Conditions:
    """Return the conditions of a status with Progressing brought up to date."""
    conditions: Conditions = status["conditions"]
    if deployment.progress_deadline is None:
        return remove_condition(conditions, PROGRESSING)
    before = find_condition(conditions, PROGRESSING)
    done = before is not None and before["reason"] == COMPLETE
    # A finished rollout stays finished until the template changes: losing a pod is not a rollout.
    if done and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return conditions
    who = f'ReplicaSet "{new.name}"' if new else f'Deployment "{deployment.name}"'
    if is_complete(deployment, status):
        message = f"{who} has successfully progressed."
        return set_condition(
            conditions, build_condition(PROGRESSING, "True", COMPLETE, message, now)
        )
    if _is_progressing(deployment, status):
        message = f"{who} is progressing."
        condition = build_condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now)
        return set_condition(conditions, condition, renew=True)
    if _is_timed_out(deployment, before, now):
        message = f"{who} has timed out progressing."
        return set_condition(
            conditions, build_condition(PROGRESSING, "False", TIMED_OUT, message, now)
        )
    return conditions


def is_complete(deployment: Deployment, status: Object) -> bool:
    """Tell whether all pods are of the current template and available, and none is left over."""
    wished = deployment.replicas
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    observed = int(status.get("observedGeneration") or 0) >= deployment.generation
    return observed and all((status.get(name) or 0) == wished for name in counts)


def _is_progressing(deployment: Deployment, status: Object) -> bool:
    """Tell whether there are more new, fewer old, more ready or more available pods than before."""

    def gained(name: str) -> bool:
        return int(status.get(name) or 0) > deployment.count(name)

    old_now = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    old_before = deployment.count("replicas") - deployment.count("updatedReplicas")
    names = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_now < old_before or any(gained(name) for name in names)


def _is_timed_out(deployment: Deployment, condition: Object | None, now: datetime) -> bool:
    if condition is None or condition["reason"] == COMPLETE:
        return False
    remaining = _remaining(deployment, condition, now)
    return condition["reason"] == TIMED_OUT or (remaining is not None and remaining < timedelta())


def _remaining(deployment: Deployment, condition: Object, now: datetime) -> timedelta | None:
    if deployment.progress_deadline is None:
        return None
    updated = parse_time(condition["lastUpdateTime"])
    return updated + timedelta(seconds=deployment.progress_deadline) - now


def failure_conditions(
    conditions: Conditions, everyone: Sequence[ReplicaSet], new: ReplicaSet | None
) -> Conditions:
    """Report what keeps a ReplicaSet from its pods; the current one's failure comes first."""
    ordered = [*([new] if new else []), *(r for r in everyone if r is not new)]
    for replica_set in ordered:
        reported = (replica_set.obj.get("status") or {}).get("conditions") or ()
        failure = find_condition(reported, REPLICA_FAILURE)
        if failure is not None:
            moment = failure.get("lastTransitionTime")
            return set_condition(conditions, {"lastUpdateTime": moment, **failure})
    return remove_condition(conditions, REPLICA_FAILURE)


def deadline_in(deployment: Deployment, status: Object, now: datetime) -> timedelta | None:
    """Return when to look whether the deadline was missed; None when it cannot be."""
    condition = find_condition(status["conditions"], PROGRESSING)
    if condition is None or condition["reason"] in (COMPLETE, TIMED_OUT, PAUSED):
        return None
    remaining = _remaining(deployment, condition, now)
    # Times have whole seconds: look when the last one is over.
    return None if remaining is None else max(remaining, timedelta()) + timedelta(seconds=0.1)
