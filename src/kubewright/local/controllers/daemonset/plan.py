"""What to do next for a DaemonSet. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.daemonset.placement import Placement
from kubewright.local.controllers.pod import is_pod_ready, is_pod_terminating

MayReplace = Callable[[str], bool]
"""Asks whether a pod that failed on a node may be replaced by now."""


class Plan(msgspec.Struct):
    """Nodes to make pods for, pods to delete, and those of the latter that have ended."""

    create: list[str] = []
    delete: list[Object] = []
    failed: list[tuple[Object, str]] = []
    succeeded: list[tuple[Object, str]] = []

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to do."""
        return not self.create and not self.delete


def plan_nodes(placement: Placement, may_replace: MayReplace) -> Plan:
    """Plan so that each node has the pods that it should have.

    Nodes that should have a pod get one. Pods are deleted where they do not belong, when they have
    ended, and when there are too many on a node.
    """
    plan = Plan()
    for node in sorted(placement.fits):
        _plan_node(placement, node, may_replace, plan)
    present = {node.name for node in placement.nodes}
    for node, pods in placement.by_node.items():
        # One that waits for a node that is gone would wait for ever.
        if node not in present:
            plan.delete += [p for p in pods if not p["spec"].get("nodeName") and _stays(p)]
    return plan


def _plan_node(placement: Placement, node: str, may_replace: MayReplace, plan: Plan) -> None:
    fit, pods = placement.fits[node], placement.by_node.get(node)
    if fit.runs and pods is None:
        plan.create.append(node)
    elif pods is not None and not fit.stays:
        plan.delete += [pod for pod in pods if _stays(pod)]
    elif pods is not None:
        running = _sort_out(pods, node, may_replace, plan)
        if placement.daemon_set.allows_surge:
            _plan_surge(placement, node, running, plan)
        else:
            plan.delete += running[1:]


def _stays(pod: Object) -> bool:
    return not is_pod_terminating(pod)


def _sort_out(pods: list[Object], node: str, may_replace: MayReplace, plan: Plan) -> list[Object]:
    """Return the pods that run or will; note those that have ended."""
    running = []
    for pod in filter(_stays, pods):
        phase = (pod.get("status") or {}).get("phase")
        if phase == "Failed":
            if may_replace(node):
                plan.failed.append((pod, node))
                plan.delete.append(pod)
        elif phase == "Succeeded":
            plan.succeeded.append((pod, node))
            plan.delete.append(pod)
        else:
            running.append(pod)
    return running


def _plan_surge(placement: Placement, node: str, running: list[Object], plan: Plan) -> None:
    """Keep an old pod that is ready beside a new one until that is available."""
    if not running and placement.fits[node].runs:
        plan.create.append(node)
    if len(running) < 2:
        return
    new = next((p for p in running if placement.is_updated(p)), None)
    old = next((p for p in running if not placement.is_updated(p)), None)
    plan.delete += [pod for pod in running if pod is not new and pod is not old]
    if old is None or new is None:
        return
    if not is_pod_ready(old) or placement.is_available(new):
        plan.delete.append(old)


def plan_rollout(placement: Placement) -> Plan:
    """Plan the next step of a rolling update; to be asked when every node has what it should have.

    Old pods are deleted, or new ones are made beside them, as far as the strategy allows.
    """
    daemon_set, desired = placement.daemon_set, len(placement.wanted)
    if not daemon_set.is_rolling:
        return Plan()
    if surge := daemon_set.max_surge(desired):
        return _plan_surging(placement, surge)
    return _plan_replacing(placement, daemon_set.max_unavailable(desired))


class _Pair(msgspec.Struct, frozen=True):
    """The new and the old pod of a node, neither of which is ending."""

    node: str
    new: Object | None
    old: Object | None


def _pair(placement: Placement, node: str) -> _Pair | None:
    """Return the pods of a node; None where there are several of a kind."""
    pods = [pod for pod in placement.by_node.get(node, ()) if _stays(pod)]
    new = [pod for pod in pods if placement.is_updated(pod)]
    old = [pod for pod in pods if not placement.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return _Pair(node, new[0] if new else None, old[0] if old else None)


def _nodes(placement: Placement) -> list[str]:
    return sorted({*placement.wanted, *placement.by_node})


def _plan_replacing(placement: Placement, most: int) -> Plan:
    """Delete old pods: those that serve nobody, and others while enough nodes stay available."""
    unavailable, candidates = 0, []
    plan = Plan()
    for node in _nodes(placement):
        pair = _pair(placement, node)
        if pair is None or (pair.new is None) is (pair.old is None):
            unavailable += 1
        elif pair.new is not None:
            unavailable += not placement.is_available(pair.new)
        elif pair.old is not None and not placement.is_available(pair.old):
            plan.delete.append(pair.old)
            unavailable += 1
        elif pair.old is not None:
            candidates.append(pair.old)
    plan.delete += candidates[: max(most - unavailable, 0)]
    return plan


def _plan_surging(placement: Placement, most: int) -> Plan:
    """Make new pods beside old ones; delete an old one when its successor is available."""
    plan = Plan()
    surging, available = 0, 0
    candidates: list[str] = []
    misplaced: list[Object] = []
    for node in _nodes(placement):
        pair = _pair(placement, node)
        if pair is None:
            surging += 1
            continue
        serving = pair.old if pair.old is not None else pair.new
        available += serving is not None and placement.is_available(serving)
        if pair.old is None:
            continue
        fit = placement.fits.get(node)
        if pair.new is not None:
            if placement.is_available(pair.new):
                plan.delete.append(pair.old)
            else:
                surging += 1
        elif fit is None or not fit.runs:
            is_useful = placement.is_available(pair.old)
            (misplaced if is_useful else plan.delete).append(pair.old)
        elif not placement.is_available(pair.old):
            plan.create.append(node)
        else:
            candidates.append(node)
    # Whoever surges expects to lose no availability, also when pods move to other nodes.
    plan.delete += misplaced[: max(available - len(placement.wanted), 0)]
    plan.create += candidates[: max(most - surging, 0)]
    return plan
