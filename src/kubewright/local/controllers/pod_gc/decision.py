"""Which pods are collected, and when. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.local.controllers.pod import is_pod_finished, is_pod_terminating

QUARANTINE = timedelta(seconds=40)
"""How long a node must be gone before its pods go."""
FINISHED_THRESHOLD = 12_500
"""How many finished pods are kept (kube-controller-manager's --terminated-pod-gc-threshold)."""

_UNSCHEDULED_AFTER = timedelta(seconds=20)
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Verdict(msgspec.Struct, frozen=True):
    """That a pod goes, in some time or at once, and the condition that tells why, if any."""

    after: timedelta = timedelta()
    reason: str = ""
    message: str = ""


def judge_pod(
    pod: Object, node: Object | None, node_gone_for: timedelta, deleted_for: timedelta
) -> Verdict | None:
    """Decide about one pod; None when somebody is there who will end it.

    Args:
        pod: The decoded pod.
        node: The node that it names, where there is one.
        node_gone_for: For how long that node has been known to be gone.
        deleted_for: For how long the pod has been asked to end.
    """
    terminating = is_pod_terminating(pod)
    if not pod["spec"].get("nodeName"):
        wait = max(_UNSCHEDULED_AFTER - deleted_for, timedelta())
        return Verdict(after=wait) if terminating else None
    if node is None:
        wait = max(QUARANTINE - node_gone_for, timedelta())
        return Verdict(wait, "DeletionByPodGC", "PodGC: node no longer exists")
    return Verdict() if terminating and _is_out_of_service(node) else None


def _is_out_of_service(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = find_condition(conditions, "Ready")
    taints = (node.get("spec") or {}).get("taints") or ()
    is_ready = ready is not None and ready.get("status") == "True"
    return not is_ready and any(taint["key"] == _OUT_OF_SERVICE for taint in taints)


def surplus(finished: Iterable[Object], threshold: int = FINISHED_THRESHOLD) -> list[Object]:
    """Return the finished pods that are too many: evicted ones first, then the oldest."""
    pods = list(finished)
    if len(pods) <= threshold:
        return []
    pods.sort(key=_age)
    return pods[: len(pods) - threshold]


def _age(pod: Object) -> tuple[bool, str, str]:
    evicted = (pod.get("status") or {}).get("reason") == "Evicted"
    metadata = pod["metadata"]
    return not evicted, metadata.get("creationTimestamp") or "", metadata["name"]


def build_failure(pod: Object, verdict: Verdict, now: str) -> Object | None:
    """Build the patch of the status of a pod that goes; None when it has finished anyway.

    What nobody runs any more would stay in its phase for ever, and its owner would wait.
    """
    if is_pod_finished(pod):
        return None
    metadata = pod["metadata"]
    status: Object = {"phase": "Failed"}
    if generation := metadata.get("generation"):
        status["observedGeneration"] = generation
    if verdict.reason:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": verdict.reason,
            "message": verdict.message,
            "lastTransitionTime": now,
        }
        if generation:
            condition["observedGeneration"] = generation
        before = (pod.get("status") or {}).get("conditions") or []
        others = [c for c in before if c["type"] != "DisruptionTarget"]
        status["conditions"] = [*others, condition]
    return {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
