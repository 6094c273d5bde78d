"""How the client introduces itself, so that audit logs tell who asked."""

from __future__ import annotations

import platform
import sys
from functools import cache

from kubewright.version import VERSION


@cache
def build_user_agent(program: str = "kubewright") -> str:
    """Build a user agent such as `kubewright/0.1.0 (linux/x86_64) python/3.11`."""
    system = f"{sys.platform}/{platform.machine()}"
    python = f"python/{sys.version_info.major}.{sys.version_info.minor}"
    return f"{program}/{VERSION} ({system}) {python}"
