"""What a runtime writes down of its sandboxes and containers, for an agent that comes after it.

Each is a file of its own, replaced as a whole: an agent that dies leaves the old or the new one.
The files mean nothing without the processes; with a new pod network they are removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kubewright.local.node.runtime import ContainerConfig, Exit, PodIdentity

T = TypeVar("T", bound="SandboxRecord | HeldContainer")


class SandboxRecord(msgspec.Struct, frozen=True):
    """A sandbox that was made; the holder keeps its namespaces."""

    identity: PodIdentity
    address: str


class HeldContainer(msgspec.Struct, frozen=True):
    """A container that was started; `exit` is how it ended, once that was seen.

    `pid` is its first process as seen from the agent, `inner_pid` as seen from the holder;
    `mounts` is the number of its mount namespace.
    """

    id: str
    pod: str
    config: ContainerConfig
    started_at: datetime
    pid: int
    inner_pid: int
    exit: Exit | None = None
    mounts: int = 0


class RuntimeRecords:
    """The records of one node, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._sandboxes = folder / "sandboxes"
        self._containers = folder / "containers"

    def sandboxes(self) -> list[SandboxRecord]:
        """Read the records of sandboxes."""
        return list(_read(self._sandboxes, SandboxRecord))

    def containers(self) -> list[HeldContainer]:
        """Read the records of containers, in the order in which they started."""
        return sorted(_read(self._containers, HeldContainer), key=lambda held: held.started_at)

    def write_sandbox(self, record: SandboxRecord) -> None:
        """Write the record of a sandbox."""
        _write(self._sandboxes / f"{record.identity.uid}.json", record)

    def write_container(self, record: HeldContainer) -> None:
        """Write the record of a container."""
        _write(self._containers / f"{record.id}.json", record)

    def write_started(self, record: HeldContainer) -> None:
        """Write the record of a container that started, and keep only one of its earlier runs.

        The earlier one tells how it ended, should the API not know it yet.
        """
        name = record.config.name
        earlier = [c for c in self.containers() if (c.pod, c.config.name) == (record.pod, name)]
        self.write_container(record)
        for old in earlier[:-1]:
            self.remove_container(old.id)

    def remove_container(self, container_id: str) -> None:
        """Remove the record of a container."""
        (self._containers / f"{container_id}.json").unlink(missing_ok=True)

    def remove_pod(self, uid: str) -> list[str]:
        """Remove the records of a pod's sandbox and containers; return their containers' ids."""
        gone = [held.id for held in self.containers() if held.pod == uid]
        for container_id in gone:
            self.remove_container(container_id)
        (self._sandboxes / f"{uid}.json").unlink(missing_ok=True)
        return gone

    def clear(self) -> None:
        """Remove all records."""
        for folder in (self._sandboxes, self._containers):
            shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, record: SandboxRecord | HeldContainer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".new")
    staged.write_bytes(msgspec.json.encode(record, enc_hook=str))
    staged.replace(path)


def _read(folder: Path, kind: type[T]) -> Iterator[T]:
    def decode(type: type, text: Any) -> Any:
        return type(text)

    for path in sorted(folder.glob("*.json")):
        yield msgspec.json.decode(path.read_bytes(), type=kind, dec_hook=decode)
