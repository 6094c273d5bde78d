"""Control groups that hold containers to their limits, in either version of the kernel's interface.

Every node has one group below the agent's own, named for the node's folder, and in it one for each
container. The kernel keeps groups when their processes are gone: a node removes what an earlier
run of it left. The functions here read and write small files of the kernel; call them in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kubewright.local.node.resources import CPU_PERIOD, ContainerResources

HIERARCHIES = ("memory", "cpu")
NO_LIMIT = "-1"
BUSY_SECONDS = 1.0


class ContainerGroup:
    """The group of one container: a folder, or in version 1 a folder in each hierarchy."""

    def __init__(self, folders: Mapping[str, Path], *, is_unified: bool) -> None:
        self._folders = folders
        self._is_unified = is_unified

    def add(self, pid: int) -> None:
        """Move a process in; its children are born there.

        Raises:
            OSError: the process is gone, or the kernel does not allow it.
        """
        for folder in set(self._folders.values()):
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, resources: ContainerResources) -> None:
        """Set the limits.

        Raises:
            OSError: the kernel does not allow it, such as a limit below what is in use (EBUSY).
        """
        settings = _settings(resources) if self._is_unified else _settings_v1(resources)
        for hierarchy, name, value in settings:
            folder = self._folders.get(hierarchy)
            if folder is not None and (folder / name).exists():
                (folder / name).write_text(value)

    @property
    def is_oom(self) -> bool:
        """Tell whether the kernel has killed a process of the group for want of memory."""
        file = "memory.events" if self._is_unified else "memory.oom_control"
        with contextlib.suppress(OSError):
            for line in (self._folders["memory"] / file).read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return count != "0"
        return False

    def read_cpu_seconds(self) -> float | None:
        """Return the processor time of all that ever ran in the group; None where it is unknown."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            folder = self._folders["cpu"]
            if self._is_unified:
                return int(_read_words(folder / "cpu.stat")["usage_usec"]) / 1e6
            # In version 1 another hierarchy counts, which shares its folders with that of limits.
            return int((folder / "cpuacct.usage").read_text()) / 1e9
        return None

    def read_working_set(self) -> int | None:
        """Return the memory in use without file pages that can be dropped; None where unknown."""
        total = "memory.current" if self._is_unified else "memory.usage_in_bytes"
        inactive = "inactive_file" if self._is_unified else "total_inactive_file"
        with contextlib.suppress(OSError, ValueError, KeyError):
            folder = self._folders["memory"]
            used = int((folder / total).read_text())
            return max(used - int(_read_words(folder / "memory.stat")[inactive]), 0)
        return None

    def remove(self) -> None:
        """Remove the group, once the last of its processes has been collected."""
        for folder in set(self._folders.values()):
            remove_group(folder)


def _read_words(file: Path) -> dict[str, str]:
    pairs = (line.split(maxsplit=1) for line in file.read_text().splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


class CgroupTree:
    """The groups of one node."""

    def __init__(self, folders: Mapping[str, Path], *, is_unified: bool) -> None:
        self._folders = folders
        self._is_unified = is_unified

    def create(self, name: str, resources: ContainerResources) -> ContainerGroup:
        """Make the group of a container with its limits.

        Raises:
            OSError: the kernel does not allow it.
        """
        for folder in self._folders.values():
            (folder / name).mkdir(exist_ok=True)
        group = self.find(name)
        group.limit(resources)
        return group

    def find(self, name: str) -> ContainerGroup:
        """Return the group of a container that was made before."""
        folders = {hierarchy: folder / name for hierarchy, folder in self._folders.items()}
        return ContainerGroup(folders, is_unified=self._is_unified)

    def remove(self) -> None:
        """Remove all groups of the node."""
        for folder in set(self._folders.values()):
            remove_group(folder)


def group_name(folder: Path) -> str:
    """Return the name of the group of the node that keeps its files in `folder`."""
    return "kubewright-" + hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]


def open_tree(
    folder: Path, *, root: Path = Path("/sys/fs/cgroup"), is_taken_over: bool = False
) -> CgroupTree | None:
    """Make the groups of the node that keeps its files in `folder`; None where it may not.

    What an earlier run of the node left is removed, unless its containers are taken over.
    """
    name, own = group_name(folder), read_own_groups(Path("/proc/self/cgroup"))
    if (root / "cgroup.controllers").exists():
        unified = _open_unified(root, own.get("", "/"), name, is_taken_over)
        if unified is None:
            return None
        return CgroupTree(dict.fromkeys(HIERARCHIES, unified), is_unified=True)
    folders = {}
    for hierarchy in HIERARCHIES:
        mount = root / hierarchy
        if not (mount / "cgroup.procs").exists():
            continue
        for parent in _ancestors(mount, own.get(hierarchy, "/"))[:1]:
            if made := _make(parent / name, is_taken_over):
                folders[hierarchy] = made
    if "memory" not in folders:
        for made in folders.values():
            remove_group(made)
        return None
    return CgroupTree(folders, is_unified=False)


def read_own_groups(file: Path) -> dict[str, str]:
    """Read the groups of a process by hierarchy; that of version 2 is named ""."""
    groups: dict[str, str] = {}
    for line in file.read_text().splitlines():
        _, names, path = line.split(":", 2)
        groups |= dict.fromkeys(names.split(","), path)
    return groups


def _open_unified(root: Path, own: str, name: str, is_taken_over: bool) -> Path | None:
    """Make a group that may have children with limits; a group with processes may not."""
    for parent in _ancestors(root, own):
        folder = _make(parent / name, is_taken_over)
        if folder is None:
            continue
        try:
            (folder / "cgroup.subtree_control").write_text("+memory +cpu")
            trial = folder / "trial"
            trial.mkdir(exist_ok=True)
            if (trial / "memory.max").exists() and _may_enter(trial):
                trial.rmdir()
                return folder
        except OSError:
            pass
        if not is_taken_over:
            remove_group(folder)
    return None


def _may_enter(folder: Path) -> bool:
    """Tell whether processes may be moved into a group: the kernel asks who owns both ends."""
    return os.access(folder / "cgroup.procs", os.W_OK) and (
        os.geteuid() == 0 or os.access(folder.parent.parent / "cgroup.procs", os.W_OK)
    )


def _ancestors(mount: Path, own: str) -> Sequence[Path]:
    """List the groups above a process from the nearest up, as they are visible here."""
    path = mount / own.lstrip("/")
    if not path.is_dir():
        path = mount
    return [path, *(parent for parent in path.parents if parent.is_relative_to(mount))]


def _make(folder: Path, is_taken_over: bool) -> Path | None:
    try:
        if not is_taken_over:
            remove_group(folder)
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder / "cgroup.procs", os.W_OK) else None


def remove_group(folder: Path) -> None:
    """Remove a group with those below it; one with processes stays, after a second of waiting."""
    if not folder.is_dir():
        return
    for child in list(folder.iterdir()):
        if child.is_dir():
            remove_group(child)
    until = time.monotonic() + BUSY_SECONDS
    while folder.is_dir():
        try:
            folder.rmdir()
        except OSError:
            # A killed process leaves its group a moment after its parent has heard of it.
            if time.monotonic() > until:
                return
            time.sleep(0.01)


def _settings(resources: ContainerResources) -> Iterator[tuple[str, str, str]]:
    quota = resources.cpu_quota
    limit = resources.memory_limit
    yield "cpu", "cpu.weight", str(resources.cpu_weight)
    yield "cpu", "cpu.max", f"{quota or 'max'} {CPU_PERIOD}"
    yield "memory", "memory.max", str(limit or "max")
    yield "memory", "memory.swap.max", "0" if limit else "max"
    yield "memory", "memory.oom.group", "1"


def _settings_v1(resources: ContainerResources) -> Iterator[tuple[str, str, str]]:
    quota, limit = resources.cpu_quota, resources.memory_limit
    yield "cpu", "cpu.shares", str(resources.cpu_shares)
    yield "cpu", "cpu.cfs_period_us", str(CPU_PERIOD)
    yield "cpu", "cpu.cfs_quota_us", str(quota or NO_LIMIT)
    yield "memory", "memory.limit_in_bytes", str(limit or NO_LIMIT)
