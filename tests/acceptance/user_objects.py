"""The objects and programs that users of the operators bring, as the shared folder has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def find_user_object(path: str) -> Path:
    """Return a file of the folder `acceptance` beside the repository; without it the test skips."""
    shared = Path(os.environ.get("KUBEWRIGHT_SHARED", "../shared")).resolve()
    found = shared / "acceptance" / path
    if not found.exists():
        pytest.skip(f"{found} is not there: set KUBEWRIGHT_SHARED to the folder of acceptance")
    return found
