"""Processes that outlive the first process of their container, in a pod that shares processes."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

PROC = Path("/proc")


def mount_namespace(pid: int, *, proc: Path = PROC) -> int:
    """Return the number of the mount namespace of a process; 0 for one that has ended."""
    with contextlib.suppress(OSError):
        return (proc / str(pid) / "ns" / "mnt").stat().st_ino
    return 0


def list_within(mounts: int, *, proc: Path = PROC) -> list[int]:
    """List the processes in a mount namespace: those of one container."""
    pids = [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if mounts and mount_namespace(pid, proc=proc) == mounts]


def kill_within(mounts: int) -> None:
    """Kill the processes of a container whose first one has ended."""
    for pid in list_within(mounts):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
