"""The clusters that acceptance tests run on."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BIN = Path(sys.prefix) / "bin"


@dataclass
class Cluster:
    """A running cluster: its kubeconfig, and whether its pods are processes."""

    kubeconfig: Path
    simulated: bool
    is_real: bool
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def next_namespace(self) -> str:
        """Return a name that no other test uses."""
        return f"test-{os.getpid()}-{next(self._numbers)}"


@contextmanager
def local_cluster(folder: Path) -> Iterator[Cluster]:
    """Start `kubewright local up`, as a user would, and stop it."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    up = [str(BIN / "kubewright"), "local", "up", "--name", "acceptance", "-o", "json"]
    started = subprocess.run(up, env=environment, capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stderr
    record = json.loads(started.stdout)
    try:
        yield Cluster(
            kubeconfig=Path(record["kubeconfig"]),
            simulated=record["runtime"] == "simulated",
            is_real=False,
            folder=folder,
            environment=environment,
        )
    finally:
        down = [str(BIN / "kubewright"), "local", "down", "--name", "acceptance"]
        subprocess.run(down, env=environment, capture_output=True, check=True)


@contextmanager
def real_cluster(folder: Path) -> Iterator[Cluster]:
    """Start etcd, kube-apiserver, controller-manager and scheduler, and our node under them."""
    shared = Path(os.environ.get("KUBEWRIGHT_SHARED", "../shared")).resolve()
    up = shared / "realcluster" / "up.py"
    if not up.exists():
        pytest.skip(f"{up} is not there: set KUBEWRIGHT_SHARED to the folder of realcluster")
    command = [sys.executable, str(up), str(folder / "real")]
    with (
        _process([*command, "--with", "controller-manager,scheduler"], folder / "real.log"),
        _wait_for_file(folder / "real" / "pids"),
        _process(_node_command(folder), folder / "node.log") as node,
    ):
        kubeconfig = folder / "real" / "kubeconfig"
        _wait_for_node(kubeconfig, node, folder / "node.log")
        log = (folder / "node.log").read_text()
        yield Cluster(kubeconfig, "simulated" in log, is_real=True, folder=folder)


def _node_command(folder: Path) -> list[str]:
    node = [sys.executable, "-m", "kubewright.local.node", "--name", "node-1"]
    return [*node, "--kubeconfig", str(folder / "real" / "kubeconfig"), "--dir", str(folder / "n")]


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def _wait_for_file(path: Path) -> Iterator[None]:
    deadline = time.monotonic() + 90
    while not path.exists():
        assert time.monotonic() < deadline, f"the real control plane did not start: no {path}"
        time.sleep(0.1)
    yield


def _wait_for_node(kubeconfig: Path, node: subprocess.Popen[bytes], log: Path) -> None:
    kubectl = [str(Path(sys.prefix) / "kubectl-34" / "kubectl"), f"--kubeconfig={kubeconfig}"]
    deadline = time.monotonic() + 60
    while True:
        wait = [*kubectl, "wait", "node", "--all", "--for=condition=Ready", "--timeout=5s"]
        result = subprocess.run(wait, capture_output=True, text=True, check=False)
        if result.returncode == 0 and "condition met" in result.stdout:
            return
        assert node.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"{result.stderr}\n{log.read_text()}"
        time.sleep(0.2)
