"""The status of a DaemonSet, from its nodes and pods. Pure."""

from __future__ import annotations

from datetime import timedelta

from kubewright.api.resource import Object
from kubewright.local.controllers.daemonset.placement import Placement
from kubewright.local.controllers.pod import available_in, is_pod_ready


def build_status(placement: Placement, collisions: int) -> Object:
    """Build the status; of each node its oldest pod counts."""
    daemon_set = placement.daemon_set
    pods = [placement.by_node[node][0] for node in placement.wanted if node in placement.by_node]
    ready = [pod for pod in pods if is_pod_ready(pod)]
    available = sum(placement.is_available(pod) for pod in ready)
    desired = len(placement.wanted)
    counts = {
        "updatedNumberScheduled": sum(placement.is_updated(pod) for pod in pods),
        "numberAvailable": available,
        "numberUnavailable": desired - available,
        "observedGeneration": int(daemon_set.obj["metadata"].get("generation") or 0),
        "collisionCount": collisions,
    }
    return {
        "currentNumberScheduled": len(pods),
        "numberMisscheduled": sum(
            not fit.runs and node in placement.by_node for node, fit in placement.fits.items()
        ),
        "desiredNumberScheduled": desired,
        "numberReady": len(ready),
        **{name: count for name, count in counts.items() if count},
        **{k: v for k, v in daemon_set.status.items() if k == "conditions"},
    }


def next_availability(placement: Placement) -> timedelta | None:
    """Return when the next ready pod becomes available by the passing of time alone."""
    seconds = placement.daemon_set.min_ready_seconds
    waits = [available_in(pod, seconds, placement.now) for pod in placement.pods]
    return min((wait for wait in waits if wait), default=None)
