"""The local API server against recorded answers of the real kube-apiserver 1.37.2."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What agreed when this line was last written; it only ever rises.
LEAST_PERCENT = 99.2

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]


def test_answers_agree_with_the_recordings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kubewright.local.apiserver", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout as output:
        assert output.readline().startswith("ready")
        check = [sys.executable, "-m", "conformance", "check", "--show", "4"]
        result = subprocess.run(
            [*check, "--kubeconfig", str(tmp_path / "kubeconfig")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert server.poll() is None, "a case ended the server"
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert result.returncode == 0, result.stdout + result.stderr
    agreed = re.search(r"agree \(([0-9.]+) %\), .* in full$", result.stdout)
    assert agreed is not None, result.stdout + result.stderr
    assert float(agreed[1]) >= LEAST_PERCENT, result.stdout
