"""How far an object has come: kstatus for built-in kinds and for every kind with conditions. Pure.

The rules are those of sigs.k8s.io/cli-utils/pkg/kstatus: what `kubectl` plugins, Flux and Argo CD
go by.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from kubewright.api.conditions import READY, RECONCILING, STALLED, find_condition
from kubewright.api.resource import GroupKind, GroupVersionKind, Object


class Progress(enum.Enum):
    """How far an object has come towards its spec."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class Readiness(msgspec.Struct, frozen=True):
    """The progress of an object and, unless it is current, a `message`: what it waits for."""

    progress: Progress
    message: str = ""

    @property
    def is_ready(self) -> bool:
        """Tell whether the object is as its spec wants it."""
        return self.progress is Progress.CURRENT


_CURRENT = Readiness(Progress.CURRENT)


def compute_readiness(obj: Object) -> Readiness:
    """Compute how far an object has come.

    Kinds without rules of their own are current when their conditions say nothing else and their
    `status.observedGeneration`, where there is one, is the present one.
    """
    metadata = obj.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        return Readiness(Progress.TERMINATING, "it is being deleted")
    status = obj.get("status") or {}
    observed = status.get("observedGeneration")
    if observed is not None and observed != metadata.get("generation"):
        return _in_progress("its controller has not seen the latest change")
    if stalled := _true_condition(obj, STALLED):
        return Readiness(Progress.FAILED, stalled.get("message") or "it is stalled")
    if reconciling := _true_condition(obj, RECONCILING):
        return _in_progress(reconciling.get("message") or "it is being reconciled")
    gvk = GroupVersionKind.of(obj)
    return _RULES.get(gvk.group_kind, _by_ready_condition)(obj)


def _by_ready_condition(obj: Object) -> Readiness:
    ready = _condition(obj, READY)
    if ready is None or ready.get("status") == "True":
        return _CURRENT
    return _in_progress(ready.get("message") or "it is not ready")


def _deployment(obj: Object) -> Readiness:
    progressing = _condition(obj, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return Readiness(Progress.FAILED, progressing.get("message") or "it makes no progress")
    if (waiting := _unobserved(obj)) is not None:
        return waiting
    wanted = _replicas(obj)
    status = obj.get("status") or {}
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    if updated < wanted:
        # The usual cause, such as a quota, is told only there.
        failure = _true_condition(obj, "ReplicaFailure") or {}
        why = f": {failure['message']}" if failure.get("message") else ""
        return _in_progress(f"{updated} of {wanted} replicas are updated{why}")
    if total > wanted:
        return _in_progress(f"{total - wanted} old replicas wait for their end")
    for field, word in (("availableReplicas", "available"), ("readyReplicas", "ready")):
        if (count := status.get(field, 0)) < updated:
            return _in_progress(f"{count} of {updated} replicas are {word}")
    available = _condition(obj, "Available")
    if available is not None and available.get("status") != "True":
        return _in_progress(available.get("message") or "it is not available")
    return _CURRENT


def _replica_set(obj: Object) -> Readiness:
    if (waiting := _unobserved(obj)) is not None:
        return waiting
    failure = _true_condition(obj, "ReplicaFailure")
    if failure is not None:
        return _in_progress(failure.get("message") or "pods cannot be created")
    return _count_replicas(obj, "fullyLabeledReplicas", "availableReplicas", "readyReplicas")


def _stateful_set(obj: Object) -> Readiness:
    if ((obj.get("spec") or {}).get("updateStrategy") or {}).get("type") == "OnDelete":
        return _CURRENT
    if (waiting := _unobserved(obj)) is not None:
        return waiting
    wanted, status = _replicas(obj), obj.get("status") or {}
    counted = _count_replicas(obj, "readyReplicas")
    if not counted.is_ready:
        return counted
    rolling = ((obj.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    if partition := rolling.get("partition") or 0:
        updated = status.get("updatedReplicas", 0)
        if updated < wanted - partition:
            return _in_progress(f"{updated} of {wanted - partition} replicas are updated")
        return _CURRENT
    if status.get("currentRevision") != status.get("updateRevision"):
        return _in_progress("it is being rolled to its latest revision")
    return _CURRENT


def _daemon_set(obj: Object) -> Readiness:
    if (waiting := _unobserved(obj)) is not None:
        return waiting
    status = obj.get("status") or {}
    wanted = status.get("desiredNumberScheduled")
    if wanted is None:
        return _in_progress("its nodes are not counted yet")
    for field, word in (
        ("currentNumberScheduled", "scheduled"),
        ("updatedNumberScheduled", "updated"),
        ("numberAvailable", "available"),
        ("numberReady", "ready"),
    ):
        if (count := status.get(field, 0)) < wanted:
            return _in_progress(f"{count} of {wanted} pods are {word}")
    return _CURRENT


def _job(obj: Object) -> Readiness:
    if failed := _true_condition(obj, "Failed"):
        return Readiness(Progress.FAILED, failed.get("message") or "the job failed")
    if _true_condition(obj, "Complete") or _true_condition(obj, "Suspended"):
        return _CURRENT
    # A running job is as wanted: kstatus calls it current once it has started.
    if (obj.get("status") or {}).get("startTime"):
        return _CURRENT
    return _in_progress("it has not started")


def _pod(obj: Object) -> Readiness:
    status = obj.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded" or _true_condition(obj, READY):
        return _CURRENT
    if phase == "Failed":
        return Readiness(Progress.FAILED, status.get("message") or "the pod failed")
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == "CrashLoopBackOff":
            return Readiness(Progress.FAILED, f"container {container.get('name')} keeps crashing")
    return _in_progress(f"the pod is {phase or 'Pending'} and not ready")


def compute_child_readiness(obj: Object) -> Readiness:
    """Compute what a child's owner is to wait for: as `compute_readiness`, but for unbound claims.

    A claim may be bound only when a pod uses it. Then that pod waits for it, and the owner for the
    pod; a claim that nobody uses yet, as that of backups, holds up nobody.
    """
    readiness = compute_readiness(obj)
    if readiness.progress is Progress.IN_PROGRESS and _is_unbound_claim(obj):
        return Readiness(Progress.CURRENT)
    return readiness


def _is_unbound_claim(obj: Object) -> bool:
    kind = (obj.get("apiVersion"), obj.get("kind"))
    phase = (obj.get("status") or {}).get("phase", "Pending")
    return kind == ("v1", "PersistentVolumeClaim") and phase == "Pending"


def _claim(obj: Object) -> Readiness:
    phase = (obj.get("status") or {}).get("phase")
    return _CURRENT if phase == "Bound" else _in_progress(f"the claim is {phase or 'Pending'}")


def _service(obj: Object) -> Readiness:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if spec.get("type") != "LoadBalancer" or (status.get("loadBalancer") or {}).get("ingress"):
        return _CURRENT
    return _in_progress("the load balancer has no address")


def _disruption_budget(obj: Object) -> Readiness:
    return _unobserved(obj) or _CURRENT


def _definition(obj: Object) -> Readiness:
    names = _condition(obj, "NamesAccepted")
    if names is not None and names.get("status") == "False":
        return Readiness(Progress.FAILED, names.get("message") or "its names are taken")
    if _true_condition(obj, "Established"):
        return _CURRENT
    return _in_progress("it is not established")


def _count_replicas(obj: Object, *fields: str) -> Readiness:
    wanted, status = _replicas(obj), obj.get("status") or {}
    words = {"fullyLabeledReplicas": "labelled", "availableReplicas": "available"}
    for field in ("replicas", *fields):
        if (count := status.get(field, 0)) < wanted:
            return _in_progress(f"{count} of {wanted} replicas are {words.get(field, 'ready')}")
    if (total := status.get("replicas", 0)) > wanted:
        return _in_progress(f"{total - wanted} replicas too many")
    return _CURRENT


def _unobserved(obj: Object) -> Readiness | None:
    # Their controllers always write it: without it, none has seen the object yet.
    if (obj.get("status") or {}).get("observedGeneration") is None:
        return _in_progress("its controller has not seen it yet")
    return None


def _replicas(obj: Object) -> int:
    replicas = (obj.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _condition(obj: Object, type: str) -> Object | None:
    return find_condition((obj.get("status") or {}).get("conditions") or (), type)


def _true_condition(obj: Object, type: str) -> Object | None:
    condition = _condition(obj, type)
    return condition if condition and condition.get("status") == "True" else None


def _in_progress(message: str) -> Readiness:
    return Readiness(Progress.IN_PROGRESS, message)


_RULES: dict[GroupKind, Callable[[Object], Readiness]] = {
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("batch", "Job"): _job,
    GroupKind("", "Pod"): _pod,
    GroupKind("", "PersistentVolumeClaim"): _claim,
    GroupKind("", "Service"): _service,
    GroupKind("policy", "PodDisruptionBudget"): _disruption_budget,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
