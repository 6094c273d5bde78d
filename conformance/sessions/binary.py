"""The clients whose sessions are recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec


class Binary(msgspec.Struct, frozen=True):
    """One unmodified client: its program, its version, and the folder where it lies."""

    program: str
    version: str
    folder: Path

    @property
    def name(self) -> str:
        """The program and the version, such as helm-4.1."""
        return f"{self.program}-{self.version}"


# `make venv` puts kubectl and helm of one wheel into one folder.
_WHEELS = {"32": ("1.32", "3.17"), "34": ("1.34", "4.1"), "37": ("1.37", "4.3")}


def installed_binaries() -> list[Binary]:
    """Return the binaries that `make venv` installs, kubectl before helm, oldest first."""
    folders = {minor: Path(sys.prefix) / f"kubectl-{minor}" for minor in _WHEELS}
    kubectls = [Binary("kubectl", kubectl, folders[m]) for m, (kubectl, _) in _WHEELS.items()]
    return kubectls + [Binary("helm", helm, folders[m]) for m, (_, helm) in _WHEELS.items()]
