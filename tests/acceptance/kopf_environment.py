"""Kopf from PyPI, in a virtual environment of its own: no part of it becomes part of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("kopf==1.44.6", "kubernetes")


def ensure_kopf() -> Path:
    """Return the kopf command, installed once into the user's cache.

    The test skips, with pip's own words, where the packages are not there and cannot be fetched.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    venv = Path(home, "kubewright-tests", "kopf")
    stamp = venv / ".packages"
    if stamp.exists() and stamp.read_text() == " ".join(PACKAGES):
        return venv / "bin" / "kopf"
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
    pip = [
        str(venv / "bin" / "pip"),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *PACKAGES,
    ]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"kopf cannot be installed here: {installed.stderr.strip()[-300:]}")
    stamp.write_text(" ".join(PACKAGES))
    return venv / "bin" / "kopf"
