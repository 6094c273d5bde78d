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
    with (
        _real_control_plane(folder, "--with", "controller-manager,scheduler"),
        _node(folder) as cluster,
    ):
        yield cluster


@contextmanager
def mixed_cluster(folder: Path) -> Iterator[Cluster]:
    """Start etcd and kube-apiserver alone, and our controllers and our node as their clients."""
    controllers = [sys.executable, "-m", "kubewright.local.controllers"]
    kubeconfig = ["--kubeconfig", str(folder / "real" / "kubeconfig")]
    with (
        _real_control_plane(folder),
        _process([*controllers, *kubeconfig], folder / "controllers.log"),
        _node(folder) as cluster,
    ):
        yield cluster


CLUSTERS = {"local": local_cluster, "real": real_cluster, "mixed": mixed_cluster}


@contextmanager
def _real_control_plane(folder: Path, *arguments: str) -> Iterator[None]:
    shared = Path(os.environ.get("KUBEWRIGHT_SHARED", "../shared")).resolve()
    up = shared / "realcluster" / "up.py"
    if not up.exists():
        pytest.skip(f"{up} is not there: set KUBEWRIGHT_SHARED to the folder of realcluster")
    command = [sys.executable, str(up), str(folder / "real"), *arguments]
    with _process(command, folder / "real.log") as process:
        deadline = time.monotonic() + 90
        while not (folder / "real" / "pids").exists():  # up.py writes it last
            assert process.poll() is None, (folder / "real.log").read_text()
            assert time.monotonic() < deadline, "the real control plane did not start"
            time.sleep(0.1)
        yield


@contextmanager
def _node(folder: Path) -> Iterator[Cluster]:
    kubeconfig, log = folder / "real" / "kubeconfig", folder / "node.log"
    command = [sys.executable, "-m", "kubewright.local.node", "--name", "node-1"]
    arguments = ["--kubeconfig", str(kubeconfig), "--dir", str(folder / "node")]
    with _process([*command, *arguments], log) as node:
        _wait_for_node(kubeconfig, node, log)
        yield Cluster(kubeconfig, "simulated" in log.read_text(), is_real=True, folder=folder)


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


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
