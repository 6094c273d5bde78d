"""Run a cluster in the background: start it detached, wait until it is ready, stop it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.local.cluster.directory import ClusterDirectory, ClusterRecord
from kubewright.local.cluster.options import ClusterOptions

START_SECONDS = 60.0
STOP_SECONDS = 45.0
KILL_SECONDS = 5.0


class Report(msgspec.Struct, omit_defaults=True):
    """What the detached process tells the one that started it: a record, or why it failed."""

    record: ClusterRecord | None = None
    error: str = ""


def start(options: ClusterOptions) -> ClusterRecord:
    """Start a cluster in a process of its own and return when it is ready.

    Guarantees: on an error, and when it is interrupted, nothing is left running.

    Raises:
        ConfigurationError: it runs already, or could not start; the message says why.
    """
    directory = ClusterDirectory(options.name)
    directory.create()
    reader, writer = os.pipe()
    try:
        process = _spawn(options, directory, writer)
    finally:
        os.close(writer)
    report = None
    try:
        report = _read_report(reader)
    finally:
        os.close(reader)
        if report is None or report.record is None:
            _end(process.pid)
    if report is not None and report.record is not None:
        return report.record
    if report is not None:
        raise ConfigurationError(report.error)
    raise ConfigurationError(
        f"cluster {options.name!r} did not start: its log is {directory.log}\n{_tail(directory)}"
    )


def _spawn(
    options: ClusterOptions, directory: ClusterDirectory, writer: int
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kubewright.local.cluster", str(writer)]
    command.append(msgspec.json.encode(options, enc_hook=str).decode())
    with directory.log.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[writer],
            start_new_session=True,  # the terminal's Ctrl-C is not for the cluster
        )


def _read_report(reader: int) -> Report | None:
    """Read the report; None when the process ended, or was silent for too long, without one."""
    deadline, content = time.monotonic() + START_SECONDS, b""
    while not content.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        if not (chunk := os.read(reader, 65536)):
            return None
        content += chunk
    return msgspec.json.decode(content, type=Report)


def stop(directory: ClusterDirectory) -> bool:
    """Stop a cluster, ready or still starting, and wait until it is gone; False if none runs.

    It gets SIGTERM, and SIGKILL when it has not ended after 45 seconds. Its pods, their namespaces
    and mounts end with it in both cases. Volumes that nobody knows any more are removed, also those
    of a cluster that was killed before.
    """
    pid = directory.read_pid()
    if pid is not None:
        _end(pid)
        directory.remove_record()
    directory.remove_volumes()
    return pid is not None


def _end(pid: int) -> None:
    """End a process and wait until it is gone, with SIGTERM first."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], seconds)[0]:
                return
    finally:
        os.close(descriptor)


def _tail(directory: ClusterDirectory) -> str:
    try:
        lines = directory.log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(lines[-10:])
