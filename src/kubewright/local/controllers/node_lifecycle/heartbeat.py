"""Whether a node still lives: how long ago its heartbeat last changed. Pure but for its memory."""

from __future__ import annotations

from datetime import timedelta

from kubewright.api.resource import Object

GRACE_PERIOD = timedelta(seconds=50)
"""How long a node may be silent (kube-controller-manager's --node-monitor-grace-period)."""

STARTUP_GRACE_PERIOD = timedelta(seconds=60)
"""The same for a node that never said whether it is ready (--node-startup-grace-period)."""

_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class Heartbeats:
    """Remembers when each node's heartbeat was last seen to change.

    What counts is the change, on the observer's own clock: a node's clock may be wrong. After a
    restart every node gets a whole grace period again.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}

    def silence(self, node: Object, lease: Object | None, monotonic: float) -> timedelta:
        """Return for how long the node has been silent."""
        uid = node["metadata"]["uid"]
        beat = _read_beat(node, lease)
        known = self._seen.get(uid)
        if known is None or known[0] != beat:
            self._seen[uid] = (beat, monotonic)
            return timedelta()
        return timedelta(seconds=monotonic - known[1])

    def forget(self, uids: set[str]) -> None:
        """Forget all nodes but these."""
        for uid in self._seen.keys() - uids:
            del self._seen[uid]


def patience(node: Object) -> timedelta:
    """Return how long a node may be silent."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    has_reported = any(condition["type"] == "Ready" for condition in conditions)
    return GRACE_PERIOD if has_reported else STARTUP_GRACE_PERIOD


def _read_beat(node: Object, lease: Object | None) -> str:
    renewed = ((lease or {}).get("spec") or {}).get("renewTime") or ""
    conditions = (node.get("status") or {}).get("conditions") or ()
    beats = (c.get("lastHeartbeatTime") or "" for c in conditions if c["type"] == "Ready")
    statuses = (c.get("status") or "" for c in conditions if c["type"] == "Ready")
    return f"{renewed} {next(beats, '')} {next(statuses, '')}"


def build_silent_conditions(node: Object, now: str) -> list[Object]:
    """Build the conditions of a node that stopped reporting: nothing is known any more."""
    before = (node.get("status") or {}).get("conditions") or []
    known = {condition["type"]: condition for condition in before}
    changed = {type: _build_unknown(type, known.get(type), node, now) for type in _REPORTED}
    added = [condition for type, condition in changed.items() if type not in known]
    return [*(changed.get(condition["type"], condition) for condition in before), *added]


def _build_unknown(type: str, old: Object | None, node: Object, now: str) -> Object:
    if old is not None and old["status"] == "Unknown":
        return old
    heartbeat = node["metadata"].get("creationTimestamp")
    return {
        "type": type,
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated" if old is None else "NodeStatusUnknown",
        "message": f"Kubelet {'never posted' if old is None else 'stopped posting'} node status.",
        "lastHeartbeatTime": heartbeat if old is None else old.get("lastHeartbeatTime"),
        "lastTransitionTime": now,
    }
