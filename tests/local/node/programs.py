"""Running programs of the tests as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kubewright.api.resource import Object

ROOT = Path(__file__).parents[3]
NOBODY = 65534


def can_execute(program: str) -> bool:
    """Tell whether an ordinary user can run a program: its folders must be open to all."""
    path = Path(program).resolve()
    return path.exists() and all(folder.stat().st_mode & 0o001 for folder in path.parents)


def build_command(user: str, program: str) -> list[str]:
    """Build the command that runs a program as root or as an ordinary user."""
    if user == "root" or os.geteuid() != 0:
        return [sys.executable, "-m", program]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pythons = [sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"]
    python = next(filter(can_execute, pythons), None)
    if python is None or not can_execute(str(ROOT / "src")):
        pytest.skip("an ordinary user can reach neither a Python nor these sources")
    ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *ids, python, "-m", program]


class Program:
    """A running program and what it reported in its first line."""

    def __init__(self, program: str, user: str, folder: Path, *arguments: str) -> None:
        folder.mkdir(exist_ok=True)
        if user != "root" and os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        packages = [path for path in sys.path if path.endswith("site-packages")]
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *packages]),
        }
        self.process = subprocess.Popen(
            [*build_command(user, program), str(folder), *arguments],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the program ended early; its standard error says why"
        self.report: Object = json.loads(line)

    def kill(self) -> None:
        """Kill the program as nothing can prepare for."""
        self.process.kill()
        self.process.communicate()

    def end(self) -> None:
        """Let the program end in order."""
        self.process.communicate(timeout=30)


def wait_until(is_met: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not is_met():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
