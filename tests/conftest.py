"""Options of the whole test run."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from kubewright.testing import plugin


def pytest_configure(config: pytest.Config) -> None:
    """Load our own plugin also where the installed metadata are older than its entry point.

    Property tests take the time that they need: a busy machine is no fault of what they test.
    """
    settings.register_profile(
        "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("unhurried")
    if not config.pluginmanager.hasplugin("kubewright"):
        config.pluginmanager.register(plugin, "kubewright")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the acceptance tests run on the real control plane."""
    parser.addoption(
        "--cluster",
        choices=["local", "real", "mixed", "whole"],
        default="local",
        help="the cluster of the acceptance tests: ours; the real control plane with our node; the "
        "real API server with our controllers and node; or the whole real Kubernetes",
    )
