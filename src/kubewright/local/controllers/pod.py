"""What the controllers read from a pod: activity, readiness, availability. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.api.time import parse_time

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


def is_pod_finished(pod: Object) -> bool:
    """Tell whether all containers of a pod ended and none will start again."""
    return (pod.get("status") or {}).get("phase") in FINISHED_PHASES


def is_pod_terminating(pod: Object) -> bool:
    """Tell whether a pod was asked to end."""
    return pod["metadata"].get("deletionTimestamp") is not None


def is_pod_active(pod: Object) -> bool:
    """Tell whether a pod counts as a replica: neither finished nor asked to end."""
    return not is_pod_finished(pod) and not is_pod_terminating(pod)


def find_pod_condition(pod: Object, type: str) -> Object | None:
    """Return a condition of a pod's status."""
    return find_condition((pod.get("status") or {}).get("conditions") or (), type)


def ready_condition(pod: Object) -> Object | None:
    """Return the pod's condition Ready."""
    return find_pod_condition(pod, "Ready")


def is_pod_ready(pod: Object) -> bool:
    """Tell whether the kubelet reports the pod as ready."""
    condition = ready_condition(pod)
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Object) -> datetime | None:
    """Return since when the pod is ready; None where it is not, or does not say."""
    condition = ready_condition(pod)
    if condition is None or condition.get("status") != "True":
        return None
    moment = condition.get("lastTransitionTime")
    return parse_time(moment) if moment else None


def available_in(pod: Object, min_ready_seconds: int, now: datetime) -> timedelta | None:
    """Return how long a ready pod must stay ready to be available: zero when it is.

    None means that the pod is not ready: time alone will not make it available.
    """
    if not is_pod_ready(pod):
        return None
    if min_ready_seconds == 0:
        return timedelta()
    since = ready_since(pod)
    if since is None:
        return None
    return max(since + timedelta(seconds=min_ready_seconds) - now, timedelta())


def is_pod_available(pod: Object, min_ready_seconds: int, now: datetime) -> bool:
    """Tell whether a pod has been ready for `min_ready_seconds`."""
    return available_in(pod, min_ready_seconds, now) == timedelta()


def restart_count(pod: Object) -> int:
    """Return the restarts of the pod's container that restarted most."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(status.get("restartCount") or 0) for status in statuses), default=0)


def build_condition_patch(pod: Object, condition: Object) -> Object:
    """Build the merge patch of a pod's status that sets one condition, in its place or at the end.

    The whole list is sent, guarded by the version that it was read at.
    """
    before = (pod.get("status") or {}).get("conditions") or []
    known = find_condition(before, condition["type"]) is not None
    conditions = [condition if c["type"] == condition["type"] else c for c in before]
    return {
        "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
        "status": {"conditions": conditions if known else [*before, condition]},
    }
