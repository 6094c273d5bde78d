"""What keeps pods from running, in sentences for the status of the object that they are for. Pure.

A Deployment or a StatefulSet says how many of its pods are ready, and not why the others are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kubewright.api.conditions import Condition, find_condition
from kubewright.api.resource import Object

PODS_HEALTHY = "PodsHealthy"
"""The type of the condition that is false while a pod cannot run."""

_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
# The kubelet changes between the two at every try; a status that did would be written each time.
_UNPULLABLE = frozenset({"ErrImagePull", "ImagePullBackOff"})


class PodProblem(msgspec.Struct, frozen=True):
    """Why a pod does not run: Kubernetes' own word as `reason`, a sentence for people as `message`.

    The same as long as the cause is the same: how often something was tried is not in it.
    """

    reason: str
    message: str


def find_pod_problems(pods: Iterable[Object]) -> list[PodProblem]:
    """Find what keeps pods from running, by the names of the pods; one that starts has no problem.

    Found are pods that no node takes, images that cannot be pulled, containers that cannot be made
    and those that keep ending. Pods that are being deleted are left out.
    """
    alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    alive.sort(key=lambda pod: str(pod["metadata"]["name"]))
    return [problem for pod in alive for problem in _find_problems(pod)]


def build_pods_condition(pods: Iterable[Object]) -> Condition:
    """Build the condition PodsHealthy: what the first problem is, and how many more there are."""
    problems = find_pod_problems(pods)
    if not problems:
        return Condition(PODS_HEALTHY, "True", "NoProblem", "no pod is kept from running")
    first, more = problems[0], len(problems) - 1
    rest = f"; and {more} more" if more else ""
    return Condition(PODS_HEALTHY, "False", first.reason, first.message + rest)


def _find_problems(pod: Object) -> Iterator[PodProblem]:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    scheduled = find_condition(status.get("conditions") or (), "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        reason, message = scheduled.get("reason"), scheduled.get("message")
        yield PodProblem(reason or "Unschedulable", f"pod {name} is on no node: {message}")
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            where = f"container {container.get('name')} of pod {name}"
            problem = _find_problem(container, where)
            if problem is not None:
                yield problem


def _find_problem(container: dict[str, Any], where: str) -> PodProblem | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason") or ""
    if reason in _STARTING:
        return None
    if reason in _UNPULLABLE:
        image = container.get("image")
        return PodProblem("ImagePullBackOff", f"{where}: its image {image} cannot be pulled")
    if reason == "CrashLoopBackOff":
        last = (container.get("lastState") or {}).get("terminated") or {}
        why = f"{last.get('reason') or 'Error'}, exit code {last.get('exitCode')}"
        return PodProblem(reason, f"{where} keeps ending: {why}")
    return PodProblem(reason, f"{where}: {waiting.get('message') or reason}")
