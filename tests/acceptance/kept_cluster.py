"""A cluster of ours whose objects and volumes outlive it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.acceptance.clusters import BIN, Cluster
from tests.acceptance.kubectl import Kubectl


class KeptCluster:
    """A cluster that keeps its objects and volumes in a folder, started and stopped at will."""

    def __init__(self, folder: Path) -> None:
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self._folder = folder

    def up(self) -> Kubectl:
        """Start it, and return kubectl for it."""
        record = json.loads(self._run("up", "-o", "json", "--data-dir", str(self._folder / "data")))
        kubeconfig = Path(record["kubeconfig"])
        cluster = Cluster(kubeconfig, record["runtime"] == "simulated", False, self._folder)
        return Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, "default")

    def down(self) -> None:
        """Stop it."""
        self._run("down")

    def _run(self, *arguments: str) -> str:
        command = [str(BIN / "kubewright"), "local", *arguments, "--name", "kept"]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
