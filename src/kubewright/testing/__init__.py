"""Testing: clusters for tests, faults between a client and its server, time under control.

- `Faults`, applied by `FaultyTransport` in this process or by `FaultProxy` to any other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.testing.call import Call
    from kubewright.testing.fault_proxy import FaultProxy
    from kubewright.testing.faults import Faults, Hit
    from kubewright.testing.faulty_transport import FaultyTransport
    from kubewright.testing.rule import Match, Rule
    from kubewright.testing.traffic import Traffic

__all__ = ["Call", "FaultProxy", "Faults", "FaultyTransport", "Hit", "Match", "Rule", "Traffic"]

# Names load at first use: pytest loads the plugin of this room in every run, also for others.
_MODULES = {
    "call": ("Call",),
    "fault_proxy": ("FaultProxy",),
    "faults": ("Faults", "Hit"),
    "faulty_transport": ("FaultyTransport",),
    "rule": ("Match", "Rule"),
    "traffic": ("Traffic",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
