"""What to do next for a pod, from what its containers are. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord, Role, Running, Terminated


class Start(msgspec.Struct, frozen=True):
    """Start a container, for the first time or again."""

    record: ContainerRecord


class Stop(msgspec.Struct, frozen=True):
    """Stop a container."""

    record: ContainerRecord


Step = Start | Stop


def plan_pod(pod: Object, records: Sequence[ContainerRecord], *, ending: bool) -> list[Step]:
    """Plan the next steps of a pod. What is being worked on is left alone.

    `ending` says that the pod is to end, because it was deleted or is over its deadline.
    """
    if ending or is_failed_init(pod, records):
        return plan_end(records)
    if not is_initialized(records):
        return _plan_init(pod, records)
    steps: list[Step] = []
    for record in records:
        if record.role is Role.SIDECAR:
            is_over = is_finished(pod, records)
            if not is_over and not record.is_running:
                steps.append(Start(record))
        elif record.role is Role.MAIN and may_start(pod, record):
            steps.append(Start(record))
    if is_finished(pod, records):
        steps += plan_end(records)
    return [step for step in steps if step.record.work is None]


def plan_end(records: Sequence[ContainerRecord]) -> list[Step]:
    """Plan the end of a pod: containers at once, then sidecars, the last started first."""
    alive = [record for record in records if record.is_running or record.work is not None]
    mains = [record for record in alive if record.role is not Role.SIDECAR]
    chosen = mains or alive[-1:]
    return [Stop(record) for record in chosen if record.work is None and record.is_running]


def _plan_init(pod: Object, records: Sequence[ContainerRecord]) -> list[Step]:
    steps: list[Step] = []
    for record in records:
        if record.role is Role.MAIN:
            break
        if record.role is Role.SIDECAR:
            if not record.is_running and record.work is None:
                steps.append(Start(record))
            if not record.passed:
                break
        elif not record.passed:
            if record.work is None and may_start(pod, record):
                steps.append(Start(record))
            break
    return steps


def is_initialized(records: Sequence[ContainerRecord]) -> bool:
    """Tell whether every init container has done its part."""
    return all(record.passed for record in records if record.role is not Role.MAIN)


def is_failed_init(pod: Object, records: Sequence[ContainerRecord]) -> bool:
    """Tell whether an init container has failed for good."""
    never = pod["spec"].get("restartPolicy") == "Never"
    return never and any(
        record.role is Role.INIT
        and isinstance(record.state, Terminated)
        and record.state.exit_code != 0
        for record in records
    )


def may_start(pod: Object, record: ContainerRecord) -> bool:
    """Tell whether a container that does not run should, by the pod's restart policy."""
    if isinstance(record.state, Running):
        return False
    ended = record.ended
    if ended is None:
        return True
    policy = pod["spec"].get("restartPolicy") or "Always"
    if record.role is Role.INIT and policy == "Always":
        policy = "OnFailure"
    return policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0)


def is_finished(pod: Object, records: Sequence[ContainerRecord]) -> bool:
    """Tell whether all containers have ended and none is to be started again."""
    return all(
        isinstance(record.state, Terminated) and not may_start(pod, record)
        for record in records
        if record.role is Role.MAIN
    )
