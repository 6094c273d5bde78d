"""The metrics API (metrics.k8s.io): what nodes and pods use, as an aggregated API server.

An ordinary API client beside the controllers. It asks every node through the API server
(`nodes/proxy`), so it needs no way of its own to them, and serves any cluster whose API server
identifies itself to aggregated ones, as kubeadm's do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.local.metrics_server.server import MetricsServer

__all__ = ["MetricsServer"]


def __getattr__(name: str) -> Any:
    # A cluster without nodes has no use for it, and its start should not pay for it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kubewright.local.metrics_server.server"), name)
