"""Which Kubernetes this server is like."""

from __future__ import annotations

import sys

from kubewright.api.resource import Object

GIT_VERSION = "v1.37.2+kubewright"


def build_version() -> Object:
    """Build the answer of `/version`."""
    import platform  # slow to load, and not needed to start

    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": "37",
        "emulationMajor": "1",
        "emulationMinor": "37",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{sys.platform}/{machine}",
    }
