"""Run a command against the real kube-apiserver.

    python tools/on_kube_apiserver.py pytest tests/runtime

Starts etcd and kube-apiserver (from $KUBEBUILDER_ASSETS, or as `make conformance` built them), sets
KUBEWRIGHT_TEST_KUBECONFIG and runs the command. Nothing else runs: no controllers, no nodes. Exit
code 3 says that they are not built.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kubewright.testing.real_server import KUBECONFIG, find_binaries, serve_kube_apiserver

CANNOT = 3


def main() -> int:
    """Run the command and return its exit code."""
    binaries = find_binaries(os.environ)
    if binaries is None:
        print("kube-apiserver and etcd are not built: run `make conformance`", file=sys.stderr)
        return CANNOT
    with (
        tempfile.TemporaryDirectory(prefix="kubewright-") as folder,
        serve_kube_apiserver(binaries, Path(folder)) as kubeconfig,
    ):
        environment = {**os.environ, KUBECONFIG: str(kubeconfig)}
        return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
