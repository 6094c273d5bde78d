"""The page on testing runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubewright.testing.real_server import KUBECONFIG, find_binaries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing-an-operator.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.processes
def test_the_blocks_of_the_page_are_tests_that_pass(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    (tmp_path / "test_page.py").write_text("\n".join(blocks))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    plugin = ["-p", "no:kubewright", "-p", "kubewright.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "-W", "error", "test_page.py"]

    environment = dict(os.environ)
    if find_binaries(os.environ) is not None:
        # One real server is enough for both sessions.
        environment[KUBECONFIG] = str(request.getfixturevalue("real_kubeconfig"))

    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    tests = re.findall(r"^(?:async )?def test_", "\n".join(blocks), re.MULTILINE)
    passed = re.search(r"(\d+) passed(?:, (\d+) skipped)?", done.stdout)
    assert passed is not None
    assert sum(int(count or 0) for count in passed.groups()) == len(tests) >= 8


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().split()) <= 1500
