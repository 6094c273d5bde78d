"""What running containers use: processor time and memory, from their control group or /proc.

The functions read small files of the kernel; call them in a thread.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from kubewright.local.node.cgroups import ContainerGroup
from kubewright.local.node.memory_watch import list_tree, read_memory

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    """Processor time since the start in seconds, and the memory that cannot be given back."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0


def read_usage(pid: int, group: ContainerGroup | None, *, proc: Path = Path("/proc")) -> Usage:
    """Read what a container uses whose first process is `pid`.

    A group tells all of it. Without one, or where it does not count, the processes are summed up:
    of those that have ended it knows what their parents have collected.
    """
    cpu = group.read_cpu_seconds() if group is not None else None
    memory = group.read_working_set() if group is not None else None
    return Usage(
        sum_cpu_seconds(pid, proc=proc) if cpu is None else cpu,
        read_memory(pid, proc=proc) if memory is None else memory,
    )


def sum_cpu_seconds(pid: int, *, proc: Path = Path("/proc")) -> float:
    """Sum up the processor time of a process and all below it, with that of collected children."""
    return sum(_read_ticks(proc / str(each)) for each in list_tree(pid, proc=proc)) / _TICKS


def _read_ticks(folder: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name in parentheses may hold anything, spaces too.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15])
    return 0
