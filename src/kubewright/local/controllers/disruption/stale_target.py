"""Take back the condition DisruptionTarget of pods that were to be disrupted and were not."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time, parse_time
from kubewright.cache.entry import Change
from kubewright.local.controllers.pod import (
    build_condition_patch,
    is_pod_finished,
    is_pod_terminating,
)
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result

NAME = "disruption-target-controller"

STALE_AFTER = timedelta(minutes=2)

_TYPE = "DisruptionTarget"
_MARK = _TYPE.encode()


def build_stale_target_controller() -> Controller:
    """Build the controller that resets the condition after two minutes without a deletion."""
    return Controller(NAME, builtin.POD, _reconcile, changes=_mentions_disruption)


def _mentions_disruption(change: Change) -> bool:
    # Almost no pod has the condition, and every change of every pod comes here.
    return _MARK in bytes(change.entry.raw)


def stale_in(pod: Object, now: datetime) -> timedelta | None:
    """Return how long the condition still counts; None where there is none to take back.

    What the kubelet announces is never stale: it may end a pod long before it deletes it.
    """
    condition = find_condition((pod.get("status") or {}).get("conditions") or (), _TYPE)
    if condition is None or condition.get("status") != "True":
        return None
    by_kubelet = condition.get("reason") == "TerminationByKubelet"
    if by_kubelet or is_pod_terminating(pod) or is_pod_finished(pod):
        return None
    since = condition.get("lastTransitionTime")
    return max(parse_time(since) + STALE_AFTER - now, timedelta()) if since else timedelta()


def build_reset(pod: Object, now: datetime) -> Object:
    """Build the patch of a pod's status that says that it is not to be disrupted."""
    condition: Object = {
        "type": _TYPE,
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(now),
    }
    if (pod.get("status") or {}).get("observedGeneration"):
        condition["observedGeneration"] = pod["metadata"].get("generation")
    return build_condition_patch(pod, condition)


async def _reconcile(key: NamespacedName, ctx: Context) -> Result | None:
    pod = ctx.get(builtin.POD, key)
    now = ctx.clock.now()
    wait = None if pod is None else stale_in(pod, now)
    if pod is None or wait is None:
        return None
    if wait:
        return Result(after=wait)
    await ctx.patch(builtin.POD, key, build_reset(pod, now), subresource="status")
    return None
