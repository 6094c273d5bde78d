"""Telemetry: metrics under controller-runtime's names, structured logs, health, and their server.

Nothing below this room knows of it. Metrics need prometheus-client, which is loaded with `Metrics`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.telemetry.endpoints import (
        Answer,
        BindAddress,
        serve_endpoints,
        serve_locally,
    )
    from kubewright.telemetry.health import Health
    from kubewright.telemetry.logs import JSONFormatter, TextFormatter, configure_logging
    from kubewright.telemetry.metrics import Metrics
    from kubewright.telemetry.observers import combine_observers
    from kubewright.telemetry.reconcile_records import ReconcileRecords
    from kubewright.telemetry.traces import Traces
    from kubewright.telemetry.watchdog import Watchdog

__all__ = [
    "Answer",
    "BindAddress",
    "Health",
    "JSONFormatter",
    "Metrics",
    "ReconcileRecords",
    "TextFormatter",
    "Traces",
    "Watchdog",
    "combine_observers",
    "configure_logging",
    "serve_endpoints",
    "serve_locally",
]

# Names load at first use: whoever serves no metrics does not wait for prometheus-client.
_MODULES = {
    "endpoints": ("Answer", "BindAddress", "serve_endpoints", "serve_locally"),
    "health": ("Health",),
    "logs": ("JSONFormatter", "TextFormatter", "configure_logging"),
    "metrics": ("Metrics",),
    "observers": ("combine_observers",),
    "reconcile_records": ("ReconcileRecords",),
    "traces": ("Traces",),
    "watchdog": ("Watchdog",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
