"""The taints that a node's conditions call for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.resource import Object

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_KEPT_OUT = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})
_DRIVEN_OUT = frozenset({NOT_READY, UNREACHABLE})


def plan_taints(node: Object, now: str) -> list[Object]:
    """Return the taints that a node should have: its own, then those of its conditions.

    A condition keeps new pods out (NoSchedule). A node that is not ready, or not heard of, also
    drives out the pods that do not tolerate it (NoExecute), counted from `timeAdded`.
    """
    spec = node.get("spec") or {}
    present: Sequence[Object] = spec.get("taints") or ()
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = [
        key for c in conditions if (key := _BY_CONDITION.get((c["type"], c.get("status") or "")))
    ]
    keys += [UNSCHEDULABLE] if spec.get("unschedulable") else []
    wanted = [(key, "NoSchedule") for key in keys]
    wanted += [(key, "NoExecute") for key in keys if key in _DRIVEN_OUT]
    kept = [t for t in present if not _is_managed(t) or _identity(t) in wanted]
    have = {_identity(taint) for taint in kept}
    return [
        *kept,
        *(_build(key, effect, now) for key, effect in wanted if (key, effect) not in have),
    ]


def _identity(taint: Object) -> tuple[str, str]:
    return taint["key"], taint.get("effect") or ""


def _is_managed(taint: Object) -> bool:
    key, effect = _identity(taint)
    return key in (_KEPT_OUT if effect == "NoSchedule" else _DRIVEN_OUT) and effect in (
        "NoSchedule",
        "NoExecute",
    )


def _build(key: str, effect: str, now: str) -> Object:
    return {"key": key, "effect": effect, "timeAdded": now}
