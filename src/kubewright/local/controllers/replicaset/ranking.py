"""Which pods go first when there are too many. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.controllers.pod import is_pod_ready, ready_since, restart_count

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "": 0, "Unknown": 1}


def rank_for_deletion(
    pods: Iterable[Object], related: Iterable[Object], now: datetime
) -> list[Object]:
    """Order pods by how little is lost with them, first to go first.

    Unassigned before assigned, pending before running, not ready before ready; then the lowest
    deletion cost, the node with most related pods, the shortest time ready, the most restarts, the
    youngest. Times are compared in powers of two, so that not always the newest pods go (KEP-2185),
    and UIDs break what is left of ties.

    Args:
        pods: The candidates.
        related: All pods of the owner's siblings: those that should be spread over nodes together.
        now: The time that ages are measured at.
    """
    crowds = Counter(node for pod in related if (node := _node(pod)))
    return sorted(pods, key=lambda pod: _rank(pod, crowds, now))


def _rank(pod: Object, crowds: Counter[str], now: datetime) -> tuple[Any, ...]:
    status = pod.get("status") or {}
    node = _node(pod)
    ready = is_pod_ready(pod)
    created = pod["metadata"].get("creationTimestamp")
    return (
        bool(node),
        _PHASES.get(status.get("phase") or "", 2),
        ready,
        deletion_cost(pod),
        -crowds[node],
        _magnitude(ready_since(pod), now) if ready else 0,
        -restart_count(pod),
        _magnitude(parse_time(created) if created else None, now),
        pod["metadata"].get("uid", ""),
    )


def deletion_cost(pod: Object) -> int:
    """Return what the pod's owner says that its deletion costs; 0 where it is no number."""
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _magnitude(since: datetime | None, now: datetime) -> int:
    """Return an age in powers of two: young ones are small and go first."""
    if since is None:
        return -1
    seconds = (now - since).total_seconds()
    return -1 if seconds <= 0 else int(math.log2(seconds * 1_000_000_000 + 1))


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


def pods_to_delete(
    pods: Sequence[Object], related: Iterable[Object], count: int, now: datetime
) -> list[Object]:
    """Return the `count` pods that go."""
    if count >= len(pods):
        return list(pods)
    return rank_for_deletion(pods, related, now)[:count]
