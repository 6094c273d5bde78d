"""The decision of a ReplicaSet: pods to create or delete, and its status. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from kubewright.api.conditions import find_condition
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.pod import (
    available_in,
    is_pod_active,
    is_pod_available,
    is_pod_finished,
    is_pod_ready,
    is_pod_terminating,
)
from kubewright.local.controllers.replicaset.ranking import pods_to_delete

BURST_REPLICAS = 500
"""The most pods that one look creates or deletes."""

REPLICA_FAILURE = "ReplicaFailure"


class Scale(msgspec.Struct, frozen=True):
    """What one look at a ReplicaSet decides: either some pods to create, or some to delete."""

    create: int = 0
    delete: tuple[Object, ...] = ()


def wished_replicas(replica_set: Object) -> int:
    """Return `spec.replicas`, which defaults to 1."""
    replicas = replica_set["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def plan_scale(
    replica_set: Object, pods: Sequence[Object], related: Sequence[Object], now: datetime
) -> Scale:
    """Decide how many pods to create, or which to delete.

    Only active pods count: one that finished or was asked to end is replaced at once.

    Args:
        replica_set: The decoded ReplicaSet.
        pods: The pods that it owns.
        related: The pods of all ReplicaSets of the same owner.
        now: The time that ages are measured at.
    """
    active = [pod for pod in pods if is_pod_active(pod)]
    missing = wished_replicas(replica_set) - len(active)
    if missing >= 0:
        return Scale(create=min(missing, BURST_REPLICAS))
    surplus = min(-missing, BURST_REPLICAS)
    return Scale(delete=tuple(pods_to_delete(active, related, surplus, now)))


def plan_batches(count: int, *, first: int = 1) -> Iterator[int]:
    """Yield sizes of batches that double, so that a refusal costs few requests."""
    size = first
    while count > 0:
        yield min(size, count)
        count -= size
        size *= 2


def build_pod(replica_set: Object, name: str, generate_name: str) -> Object:
    """Build a pod of the template, owned by the ReplicaSet."""
    template = replica_set["spec"]["template"]
    given = template.get("metadata") or {}
    kept = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": generate_name,
            "namespace": replica_set["metadata"]["namespace"],
            **kept,
            "ownerReferences": [build_owner_reference(replica_set)],
        },
        "spec": template.get("spec") or {},
    }


def build_status(
    replica_set: Object, pods: Sequence[Object], now: datetime, *, failure: Object | None = None
) -> Object:
    """Build the status from the pods; counts of 0 are left out but for replicas and terminating.

    Args:
        replica_set: The decoded ReplicaSet.
        pods: The pods that it owns, also those that end or have ended.
        now: The time that availability is measured at.
        failure: The condition ReplicaFailure of this look, when pods could not be made or deleted.
    """
    active = [pod for pod in pods if is_pod_active(pod)]
    template = replica_set["spec"]["template"].get("metadata") or {}
    wanted = (template.get("labels") or {}).items()
    ready = [pod for pod in active if is_pod_ready(pod)]
    seconds = int(replica_set["spec"].get("minReadySeconds") or 0)
    counts = {
        "fullyLabeledReplicas": sum(
            wanted <= (pod["metadata"].get("labels") or {}).items() for pod in active
        ),
        "readyReplicas": len(ready),
        "availableReplicas": sum(is_pod_available(pod, seconds, now) for pod in ready)
        if seconds
        else len(ready),
        "observedGeneration": int(replica_set["metadata"].get("generation") or 0),
    }
    status: Object = {"replicas": len(active)}
    status.update({name: count for name, count in counts.items() if count})
    status["terminatingReplicas"] = sum(
        is_pod_terminating(pod) and not is_pod_finished(pod) for pod in pods
    )
    conditions = _build_conditions(replica_set, failure)
    if conditions:
        status["conditions"] = conditions
    return status


def build_failure(reason: str, message: str, now: datetime) -> Object:
    """Build the condition that says why pods could not be made (FailedCreate) or deleted."""
    return {
        "type": REPLICA_FAILURE,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now),
    }


def _build_conditions(replica_set: Object, failure: Object | None) -> list[Object]:
    before = (replica_set.get("status") or {}).get("conditions") or []
    others = [condition for condition in before if condition["type"] != REPLICA_FAILURE]
    if failure is None:
        return others
    # The first failure stands until pods can be made again: its time tells since when.
    return [*others, find_condition(before, REPLICA_FAILURE) or failure]


def next_availability(
    replica_set: Object, pods: Sequence[Object], now: datetime
) -> timedelta | None:
    """Return when the next ready pod becomes available by the passing of time alone."""
    seconds = int(replica_set["spec"].get("minReadySeconds") or 0)
    if not seconds:
        return None
    waits = [available_in(pod, seconds, now) for pod in pods if is_pod_active(pod)]
    return min((wait for wait in waits if wait), default=None)
