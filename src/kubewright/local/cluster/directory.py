"""The folder of a local cluster: who runs it, where it listens, its log and kubeconfig."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kubewright.api.errors import ConfigurationError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


class ClusterRecord(msgspec.Struct, rename="camel", frozen=True):
    """What a running cluster tells of itself."""

    name: str
    pid: int
    server: str
    kubeconfig: str
    controllers: list[str]
    nodes: list[str]
    runtime: str
    """How pods run: `process`, `simulated`, or empty without nodes."""
    note: str
    """Why pods are simulated although nobody asked for that; empty otherwise."""
    started: str


class ClusterDirectory:
    """The folder of one cluster under the user's state folder.

    A running cluster holds a lock on a file in it. The kernel drops the lock with the process, so
    that a killed cluster never looks alive and a reused process id is never signalled.
    """

    def __init__(self, name: str, root: Path | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"cluster name {name!r}: use at most 32 lower-case letters, digits and '-', "
                "beginning and ending with a letter or digit"
            )
        self.name = name
        self.path = (root or default_root()) / name

    @property
    def kubeconfig(self) -> Path:
        """The admin kubeconfig that the cluster writes by default."""
        return self.path / "kubeconfig"

    @property
    def log(self) -> Path:
        """What the cluster's processes print."""
        return self.path / "log"

    @property
    def certificates(self) -> Path:
        """The certificate authority, kept from one run to the next."""
        return self.path / "pki"

    @property
    def node_state(self) -> Path:
        """Where the nodes keep the logs and volumes of their pods."""
        return self.path / "nodes"

    @property
    def volumes(self) -> Path:
        """Where persistent volumes are while objects live in memory: they end with the cluster."""
        return self.path / "volumes"

    def create(self) -> None:
        """Make the folder, readable by its user only: it holds keys."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the running cluster.

        Raises:
            ConfigurationError: a cluster of this name runs already.
        """
        self.create()
        with self._lock_file.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigurationError(
                    f"cluster {self.name!r} runs already: stop it with "
                    f"'kubewright local down --name {self.name}' or choose another --name"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    @property
    def _lock_file(self) -> Path:
        return self.path / "lock"

    def read_pid(self) -> int | None:
        """Return the process that runs the cluster, ready or not; None when it does not run."""
        if not self.is_running():
            return None
        text = self._lock_file.read_text()
        if not text:  # the moment between lock and write, or a cluster of an older version
            record = self.read_record()
            return record.pid if record else None
        return int(text)

    def is_running(self) -> bool:
        """Tell whether a process holds the lock."""
        try:
            with self._lock_file.open("a") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def write_record(self, record: ClusterRecord) -> None:
        """Write the record, whole or not at all."""
        partial = self.path / "cluster.json.part"
        partial.write_bytes(msgspec.json.encode(record))
        partial.replace(self.path / "cluster.json")

    def read_record(self) -> ClusterRecord | None:
        """Return the record of the running cluster; None when it does not run or is not ready."""
        if not self.is_running():
            return None
        try:
            content = (self.path / "cluster.json").read_bytes()
            return msgspec.json.decode(content, type=ClusterRecord)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def remove_node_facts(self) -> None:
        """Forget how to enter the networks of former nodes: their process ids may be reused."""
        for facts in self.node_state.glob("*/node.json"):
            facts.unlink(missing_ok=True)

    def remove_volumes(self) -> None:
        """Remove the volumes of a cluster that has ended: nobody knows any more whose they are."""
        shutil.rmtree(self.volumes, ignore_errors=True)

    def remove_record(self) -> None:
        """Forget the record: the cluster is no longer ready."""
        (self.path / "cluster.json").unlink(missing_ok=True)


def default_root() -> Path:
    """Return the folder of all local clusters of this user (XDG base directory specification)."""
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "kubewright" / "local"


def list_directories(root: Path | None = None) -> list[ClusterDirectory]:
    """Return the folders of all clusters that were ever started and not removed, by name."""
    root = root or default_root()
    if not root.is_dir():
        return []
    names = sorted(entry.name for entry in root.iterdir() if _NAME.fullmatch(entry.name))
    return [ClusterDirectory(name, root) for name in names]
