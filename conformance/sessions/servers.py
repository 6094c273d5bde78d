"""The servers that sessions are played on: ours and the real one, alone and with controllers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kubewright.api.errors import ConfigurationError
from kubewright.testing.real_server import find_binaries, serve_kube_apiserver

_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


@contextmanager
def serve(server: str, folder: Path, *, controllers: bool) -> Iterator[Path]:
    """Run a server while the block lasts and lend its kubeconfig.

    Args:
        server: "local" for ours, "real" for kube-apiserver 1.37.2.
        folder: data and logs; its path must be short and it must not exist.
        controllers: run controllers and a node with simulated pods beside the API server.

    Raises:
        ConfigurationError: the server did not start, or is not built on this machine.
    """
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        if server == "local":
            yield stack.enter_context(_local(folder, controllers))
        elif controllers:
            yield stack.enter_context(_real_cluster(folder))
        else:
            binaries = find_binaries(os.environ)
            if binaries is None:
                raise ConfigurationError("kube-apiserver is not built: run `make conformance`")
            yield stack.enter_context(serve_kube_apiserver(binaries, folder))


@contextmanager
def _local(folder: Path, controllers: bool) -> Iterator[Path]:
    kubeconfig = folder / "kubeconfig"
    if controllers:
        command = [sys.executable, "-m", "kubewright.cli.main", "local", "up", "--foreground"]
        command += ["--simulated", "--name", "session", "--kubeconfig", str(kubeconfig)]
    else:
        command = [sys.executable, "-m", "kubewright.local.apiserver", "--dir", str(folder)]
    with _process(command, folder / "server.log", ready="ready at"):
        yield kubeconfig


@contextmanager
def _real_cluster(folder: Path) -> Iterator[Path]:
    shared = Path(os.environ.get("KUBEWRIGHT_SHARED", "../shared")).resolve()
    up = shared / "realcluster" / "up.py"
    if not up.exists():
        raise ConfigurationError(f"there is no {up}: set KUBEWRIGHT_SHARED to realcluster's folder")
    control_plane = [sys.executable, str(up), str(folder / "real")]
    control_plane += ["--with", "controller-manager,scheduler"]
    kubeconfig = folder / "real" / "kubeconfig"
    node = [sys.executable, "-m", "kubewright.local.node", "--simulated", "--name", "node-1"]
    node += ["--kubeconfig", str(kubeconfig), "--dir", str(folder / "node")]
    with (
        _process(control_plane, folder / "server.log", ready="ready after"),
        _process(node, folder / "node.log", ready=""),
    ):
        yield kubeconfig


@contextmanager
def _process(command: list[str], log: Path, *, ready: str) -> Iterator[None]:
    environment = {**os.environ, "XDG_STATE_HOME": str(log.parent)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            _wait_until_ready(process, log, ready)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_SECONDS)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path, ready: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while ready not in (text := log.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise ConfigurationError(f"{process.args!r} is not ready: {text}")
        time.sleep(_PAUSE_SECONDS)
