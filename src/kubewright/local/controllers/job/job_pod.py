"""What the Job controller reads from a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.pod import (
    is_pod_ready,
    is_pod_terminating,
    ready_since,
    restart_count,
)

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
"""Keeps a pod until its Job has counted it."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"

_MAX_INT32 = 2**31 - 1
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_tracked(pod: Object) -> bool:
    """Tell whether a pod has the finalizer: it is not in a counter of its Job yet."""
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


def phase(pod: Object) -> str:
    """Return the phase that the kubelet reports."""
    return str((pod.get("status") or {}).get("phase") or "")


def is_succeeded(pod: Object) -> bool:
    """Tell whether all containers ended well."""
    return phase(pod) == "Succeeded"


def is_failed(pod: Object, job: Job) -> bool:
    """Tell whether a pod counts as a failure.

    One that is being deleted does: it may never get to report how it ended. Where only failed pods
    are replaced (KEP-3939), it is waited for. When the Job ends, it was the Job that deleted it.
    """
    if phase(pod) == "Failed":
        return True
    if job.replaces_only_failed or job.is_ending:
        return False
    return is_pod_terminating(pod) and not is_succeeded(pod)


def uid_of(pod: Object) -> str:
    """Return a pod's UID."""
    return str(pod["metadata"]["uid"])


def completion_index(pod: Object) -> int | None:
    """Return the index of a pod of an Indexed Job; None where its annotation is no index."""
    text = _annotation(pod, COMPLETION_INDEX)
    return int(text) if text.isascii() and text.isdecimal() else None


def valid_index(pod: Object, job: Job) -> int | None:
    """Return the index of a pod if it is one that the Job has now."""
    index = completion_index(pod)
    return index if index is not None and index < job.index_count else None


def index_failures(pod: Object) -> int:
    """Return how many pods of its index had failed when this one was made."""
    return _count(pod, FAILURE_COUNT)


def ignored_failures(pod: Object) -> int:
    """Return how many failures of its index had been ignored when this one was made."""
    return _count(pod, IGNORED_FAILURE_COUNT)


def _annotation(pod: Object, key: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(key) or "")


def _count(pod: Object, key: str) -> int:
    text = _annotation(pod, key)
    number = int(text) if text.isascii() and text.isdecimal() else 0
    return number if number <= _MAX_INT32 else 0


def restarts(pod: Object) -> int:
    """Return the restarts of all containers of a pod that is not over."""
    status = pod.get("status") or {}
    statuses = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return sum(int(each.get("restartCount") or 0) for each in statuses)


def finish_time(pod: Object) -> datetime:
    """Return when a pod ended, as well as it tells: back-off counts from there.

    In turn: the end of its last container, since when it is not ready, when it was asked to end,
    when it was made.
    """
    if (ended := _last_container_end(pod)) is not None:
        return ended
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = find_condition(conditions, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if is_pod_terminating(pod):
        grace = timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
        return parse_time(metadata["deletionTimestamp"]) - grace
    return parse_time(metadata["creationTimestamp"])


def _last_container_end(pod: Object) -> datetime | None:
    """Return when the last container ended; None while one is not known to have ended.

    Sidecars count: they end after the containers. Other init containers ended long before.
    """
    status = pod.get("status") or {}
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    statuses = [
        *(status.get("containerStatuses") or ()),
        *(s for s in status.get("initContainerStatuses") or () if s["name"] in sidecars),
    ]
    ends = [((s.get("state") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    if not ends or not all(ends):
        return None
    return max(parse_time(str(end)) for end in ends)


def rank_for_removal(pods: Iterable[Object]) -> list[Object]:
    """Order active pods by how little is lost with them, first to go first.

    Unassigned before assigned, pending before running, not ready before ready; then the shortest
    time ready, the most restarts, the youngest. UIDs break what is left of ties.
    """
    return sorted(pods, key=_rank)


def _rank(pod: Object) -> tuple[bool, int, bool, float, int, float, str]:
    since = ready_since(pod)
    created = pod["metadata"].get("creationTimestamp")
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(phase(pod), 0),
        is_pod_ready(pod),
        -since.timestamp() if since is not None else 0.0,
        -restart_count(pod),
        -parse_time(created).timestamp() if created else 0.0,
        uid_of(pod),
    )
