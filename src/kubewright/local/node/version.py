"""The version that a node says it runs."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def package_version() -> str:
    """Return Kubewright's version; `0` when it runs from sources that are not installed."""
    try:
        return version("kubewright")
    except PackageNotFoundError:
        return "0"
