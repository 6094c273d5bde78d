"""Finding the log that a request names, by the state of the container. Pure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from kubewright.api.errors import KubewrightError
from kubewright.local.node.containers import ContainerRecord, Waiting


class LogRefused(KubewrightError):
    """There is no such log; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LogSource(msgspec.Struct, frozen=True):
    """A log file, and whether the container that writes it runs."""

    path: Path
    is_running: Callable[[], bool]


def choose_attempt(pod: str, record: ContainerRecord, *, previous: bool) -> int:
    """Choose the run of a container whose log is asked for.

    Raises:
        LogRefused: it has not run, or not before; worded as the kubelet words it.
    """
    if previous:
        has_previous = record.last is not None
        in_back_off = isinstance(record.state, Waiting)
        if not has_previous:
            raise LogRefused(
                400, f'previous terminated container "{record.name}" in pod "{pod}" not found'
            )
        return record.restarts if in_back_off else record.restarts - 1
    if isinstance(record.state, Waiting) and record.last is None:
        raise LogRefused(
            400,
            f'container "{record.name}" in pod "{pod}" is waiting to start: {record.state.reason}',
        )
    return record.restarts
