"""Finding the log that a request names, by the state of the container. Pure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from kubewright.api.errors import KubewrightError
from kubewright.local.node.containers import ContainerRecord, Running, Terminated, Waiting

PULL_FAILURES = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


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
    named = f'container "{record.name}" in pod "{pod}"'
    state, last = record.state, record.last
    # A run that nobody saw has no log: it has no container's id either.
    has_last = last is not None and bool(last.container_id)
    last_attempt = record.attempt - 1 if isinstance(state, Waiting) else record.restarts - 1
    if previous:
        if not has_last:
            raise LogRefused(400, f"previous terminated {named} not found")
        return last_attempt
    if isinstance(state, Running) or (isinstance(state, Terminated) and state.container_id):
        return record.restarts
    if has_last:
        return last_attempt
    if isinstance(state, Terminated) or last is not None:
        raise LogRefused(400, f"{named} is terminated")
    reason = PULL_FAILURES.get(state.reason, state.reason)
    raise LogRefused(400, f"{named} is waiting to start: {reason}")
