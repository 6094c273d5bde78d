"""A pytest plugin: what asks pytest-kind for a cluster gets the one that $KUBECONFIG names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

# It is in the suite's own environment only.
import pytest_kind.cluster  # type: ignore[import-not-found]


class RunningCluster:
    """What tests use of pytest-kind's KindCluster, for a cluster that runs already."""

    def __init__(self, name: str, **_: Any) -> None:
        self.name = name
        self.kubeconfig_path = Path(os.environ["KUBECONFIG"])
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")

    def create(self) -> None:
        """Do nothing: the cluster runs."""

    def delete(self) -> None:
        """Do nothing: who started the cluster stops it."""

    def kubectl(self, *arguments: str, **options: Any) -> str:
        """Run kubectl on the cluster and return what it prints."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        command = [str(self.kubectl_path), *arguments]
        return str(subprocess.check_output(command, env=environment, encoding="utf-8", **options))


pytest_kind.cluster.KindCluster = RunningCluster
