"""What to do next for a pod, from what its containers are. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord, Role, Running, Terminated, Waiting
from kubewright.local.node.restart_rules import should_restart


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
    if is_initialized(records) and is_finished(pod, records):
        return plan_end(records)
    steps: list[Step] = [Start(record) for record in records if _is_new_ephemeral(record)]
    if not is_initialized(records):
        return [*steps, *_plan_init(pod, records)]
    wanted = [record for record in records if _is_wanted(pod, record)]
    return [*steps, *(Start(record) for record in wanted if record.work is None)]


def _is_wanted(pod: Object, record: ContainerRecord) -> bool:
    """Tell whether a container of an initialized pod is to be started."""
    if record.role is Role.SIDECAR:
        return not record.is_running
    return record.role is Role.MAIN and may_start(pod, record)


def plan_end(records: Sequence[ContainerRecord]) -> list[Step]:
    """Plan the end of a pod: all are stopped at once; sidecars wait for their turn themselves."""
    return [Stop(record) for record in records if record.is_running and record.work is None]


def list_earlier(
    record: ContainerRecord, records: Sequence[ContainerRecord]
) -> list[ContainerRecord]:
    """List what ends before a container at the end of a pod: before a sidecar, all but those above.

    A sidecar may be needed until the last container has ended (KEP-753).
    """
    if record.role is not Role.SIDECAR:
        return []
    mains = [other for other in records if other.role is Role.MAIN]
    place = records.index(record)
    later = [other for other in records[place + 1 :] if other.role is Role.SIDECAR]
    return [*mains, *later]


def _is_new_ephemeral(record: ContainerRecord) -> bool:
    is_new = isinstance(record.state, Waiting) and record.work is None
    return is_new and record.role is Role.EPHEMERAL


def _plan_init(pod: Object, records: Sequence[ContainerRecord]) -> list[Step]:
    steps: list[Step] = []
    for record in records:
        if record.role not in (Role.INIT, Role.SIDECAR):
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
    return all(record.passed for record in records if record.role in (Role.INIT, Role.SIDECAR))


def is_failed_init(pod: Object, records: Sequence[ContainerRecord]) -> bool:
    """Tell whether an init container has failed for good."""
    return any(
        record.role is Role.INIT
        and isinstance(record.state, Terminated)
        and record.state.exit_code != 0
        and not should_restart(pod, record, record.state.exit_code)
        for record in records
    )


def may_start(pod: Object, record: ContainerRecord) -> bool:
    """Tell whether a container that does not run should, by its rules and the restart policy."""
    if isinstance(record.state, Running):
        return False
    ended = record.ended
    if ended is None or record.is_reset:
        return True
    return should_restart(pod, record, ended.exit_code)


def is_finished(pod: Object, records: Sequence[ContainerRecord]) -> bool:
    """Tell whether all containers have ended and none is to be started again."""
    return all(
        isinstance(record.state, Terminated) and not may_start(pod, record)
        for record in records
        if record.role is Role.MAIN
    )
