"""What the scheduler writes: bindings and conditions. Pure."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.controllers.pod import find_pod_condition
from kubewright.local.controllers.scheduler.cluster_state import NAME


def build_binding(pod: Object, node: str) -> Object:
    """Build the Binding of a pod; its UID keeps it from another pod of the name."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "target": {"kind": "Node", "name": node},
    }


def build_unschedulable(pod: Object, message: str, now: str) -> Object:
    """Build the condition that says why a pod has no node."""
    before = find_pod_condition(pod, "PodScheduled")
    same = before is not None and before.get("status") == "False"
    condition: Object = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": before["lastTransitionTime"] if before and same else now,
    }
    return _with_generation(condition, pod)


def build_preempted(victim: Object, now: str) -> Object:
    """Build the condition of a pod that goes to make room."""
    condition: Object = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{NAME}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": now,
    }
    return _with_generation(condition, victim)


def _with_generation(condition: Object, pod: Object) -> Object:
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    return condition
