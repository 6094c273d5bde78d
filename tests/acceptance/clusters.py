"""The clusters that acceptance tests run on.

`python -m tests.acceptance.clusters NAME COMMAND…` runs a command with one of them, by $KUBECONFIG
and $KUBEWRIGHT_TEST_KUBECONFIG.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
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


@contextmanager
def whole_cluster(folder: Path) -> Iterator[Cluster]:
    """Start the real Kubernetes with a real node: kubelet, containerd, kube-proxy, CoreDNS."""
    up = _recipe("node.py")
    with (
        # UNIX sockets of containerd lie in it, whose paths must be short.
        tempfile.TemporaryDirectory(prefix="kw") as short,
        _process([sys.executable, str(up), "up", short], folder / "node.log") as process,
    ):
        deadline = time.monotonic() + 300
        while "node ready" not in (folder / "node.log").read_text():
            assert process.poll() is None, (folder / "node.log").read_text()
            assert time.monotonic() < deadline, "the real cluster did not start"
            time.sleep(0.2)
        yield Cluster(Path(short, "kubeconfig-host"), simulated=False, is_real=True, folder=folder)


CLUSTERS = {
    "local": local_cluster,
    "real": real_cluster,
    "mixed": mixed_cluster,
    "whole": whole_cluster,
}


def _recipe(name: str) -> Path:
    shared = Path(os.environ.get("KUBEWRIGHT_SHARED", "../shared")).resolve()
    recipe = shared / "realcluster" / name
    if not recipe.exists():
        pytest.skip(f"{recipe} is not there: set KUBEWRIGHT_SHARED to the folder of realcluster")
    return recipe


@contextmanager
def _real_control_plane(folder: Path, *arguments: str) -> Iterator[None]:
    command = [sys.executable, str(_recipe("up.py")), str(folder / "real"), *arguments]
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


def main() -> int:
    """Run a command on a cluster; return its exit code."""
    name, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, CLUSTERS[name](Path(folder)) as cluster:
        config = str(cluster.kubeconfig)
        variables = {"KUBECONFIG": config, "KUBEWRIGHT_TEST_KUBECONFIG": config}
        environment = {**os.environ, **cluster.environment, **variables}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
