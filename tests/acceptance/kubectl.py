"""Kubectl, unmodified, as a function."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.clusters import Cluster


@dataclass
class Kubectl:
    """Run one kubectl binary against a cluster, in one namespace."""

    binary: Path
    cluster: Cluster
    namespace: str

    def __call__(
        self,
        *arguments: str,
        stdin: str = "",
        code: int | None = 0,
        environment: dict[str, str] | None = None,
    ) -> str:
        """Run a command and return stdout and stderr together; fail unless it exits with `code`."""
        result = subprocess.run(
            self.command(*arguments),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
            env=self.environment() | (environment or {}),
        )
        assert code is None or result.returncode == code, f"{arguments}: {result.stdout}"
        return result.stdout

    def command(self, *arguments: str) -> list[str]:
        """Return the whole command line."""
        config = f"--kubeconfig={self.cluster.kubeconfig}"
        return [str(self.binary), config, f"--namespace={self.namespace}", *arguments]

    def environment(self) -> dict[str, str]:
        """Return an environment whose discovery cache belongs to this cluster and version."""
        cache = self.cluster.folder / f"cache-{self.binary.parent.name}"
        return {**os.environ, "KUBECACHEDIR": str(cache)}

    def apply(self, manifest: dict[str, Any], *arguments: str) -> str:
        """Apply a manifest from stdin."""
        return self("apply", "-f", "-", *arguments, stdin=yaml.safe_dump(manifest))

    def get(self, *arguments: str) -> Any:
        """Return one object or list as data."""
        return yaml.safe_load(self("get", *arguments, "-o", "yaml"))


def eventually(check: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Ask until the answer is yes, and fail with `what` otherwise."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)
