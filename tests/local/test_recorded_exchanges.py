"""The local API server against recorded answers of the real kube-apiserver 1.37.2.

The recordings and their checker lie beside the repository: KUBEWRIGHT_SHARED names the folder,
`../shared` by default. Without them there is nothing to compare with.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("KUBEWRIGHT_SHARED", Path(__file__).parents[3] / "shared"))
CHECKER = SHARED / "conformance" / "exchange.py"
# What agreed when this line was last written; it only ever rises.
LEAST_PERCENT = 98.9

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]


@pytest.mark.skipif(not CHECKER.exists(), reason=f"no recordings: {CHECKER} is not there")
def test_answers_agree_with_the_recordings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kubewright.local.apiserver", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout as output:
        assert output.readline().startswith("ready")
        check = [sys.executable, str(CHECKER), "check", "--show", "0"]
        result = subprocess.run(
            [*check, "--kubeconfig", str(tmp_path / "kubeconfig")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert server.poll() is None, "a case ended the server"
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    summary = result.stdout.strip().splitlines()[-1]
    agreed = re.search(r"agree \(([0-9.]+) %\)", summary)
    assert agreed is not None, result.stdout + result.stderr
    assert float(agreed[1]) >= LEAST_PERCENT, summary
