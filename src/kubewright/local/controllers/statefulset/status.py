"""The status of a StatefulSet, from its pods. Pure."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.controllers.pod import (
    is_pod_available,
    is_pod_ready,
    is_pod_terminating,
)
from kubewright.local.controllers.statefulset.plan import Situation
from kubewright.local.controllers.statefulset.stateful_set import pod_revision


def build_status(situation: Situation, collisions: int) -> Object:
    """Build the status; counts of 0 are left out but for those that the API always shows.

    An update is complete when every pod has the new template and is ready: then the new revision
    becomes the current one.
    """
    stateful_set, pods = situation.stateful_set, situation.pods
    ready = [
        pod
        for pod in pods
        if (pod.get("status") or {}).get("phase") == "Running" and is_pod_ready(pod)
    ]
    seconds = stateful_set.min_ready_seconds
    staying = [pod_revision(pod) for pod in pods if not is_pod_terminating(pod)]
    updated = staying.count(situation.update.name)
    current, current_count = situation.current.name, staying.count(situation.current.name)
    if updated == len(ready) == len(pods) == stateful_set.replicas:
        current, current_count = situation.update.name, updated
    counts = {
        "observedGeneration": int(stateful_set.obj["metadata"].get("generation") or 0),
        "readyReplicas": len(ready),
        "currentReplicas": current_count,
        "updatedReplicas": updated,
    }
    status: Object = {
        "replicas": len(pods),
        "availableReplicas": sum(is_pod_available(pod, seconds, situation.now) for pod in ready),
        "currentRevision": current,
        "updateRevision": situation.update.name,
        "collisionCount": collisions,
        **{name: count for name, count in counts.items() if count},
    }
    if conditions := stateful_set.status.get("conditions"):
        status["conditions"] = conditions
    return status
