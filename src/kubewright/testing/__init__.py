"""Testing: clusters for tests, faults between a client and its server, time under control.

- `Cluster`: an API server for one test, in memory (`embedded_cluster`) or a namespace of a real one
  (`cluster_at`); as fixtures `cluster` and `real_cluster` of the pytest plugin.
- `Faults`, applied by `FaultyTransport` in this process or by `FaultProxy` to any other.
- `FakeClock`: time that stands until a test moves it.
- `crash_points`: kill an operator at every call, and compare where it ends.
- `eventually`, `consistently`: wait for a state, with what was last seen in the message.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.testing.call import Call
    from kubewright.testing.cluster import Cluster, cluster_at, embedded_cluster
    from kubewright.testing.crash_oracle import CrashPoint, CrashReport, crash_points
    from kubewright.testing.end_state import EndState
    from kubewright.testing.fake_clock import FakeClock
    from kubewright.testing.fault_proxy import FaultProxy
    from kubewright.testing.faults import Faults, Hit
    from kubewright.testing.faulty_transport import FaultyTransport
    from kubewright.testing.polling import consistently, eventually
    from kubewright.testing.real_server import find_binaries, serve_kube_apiserver
    from kubewright.testing.rule import Match, Rule
    from kubewright.testing.traffic import Traffic

__all__ = [
    "Call",
    "Cluster",
    "CrashPoint",
    "CrashReport",
    "EndState",
    "FakeClock",
    "FaultProxy",
    "Faults",
    "FaultyTransport",
    "Hit",
    "Match",
    "Rule",
    "Traffic",
    "cluster_at",
    "consistently",
    "crash_points",
    "embedded_cluster",
    "eventually",
    "find_binaries",
    "serve_kube_apiserver",
]

# Names load at first use: pytest loads the plugin of this room in every run, also for others.
_MODULES = {
    "call": ("Call",),
    "cluster": ("Cluster", "cluster_at", "embedded_cluster"),
    "crash_oracle": ("CrashPoint", "CrashReport", "crash_points"),
    "end_state": ("EndState",),
    "fake_clock": ("FakeClock",),
    "fault_proxy": ("FaultProxy",),
    "faults": ("Faults", "Hit"),
    "faulty_transport": ("FaultyTransport",),
    "polling": ("consistently", "eventually"),
    "real_server": ("find_binaries", "serve_kube_apiserver"),
    "rule": ("Match", "Rule"),
    "traffic": ("Traffic",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
