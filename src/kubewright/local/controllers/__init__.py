"""The controllers of a cluster: ordinary API clients, written with `kubewright.runtime`.

They run beside our API server, and beside a real kube-apiserver just the same: nothing here knows
which one answers. Each can be switched on by its kube-controller-manager name; `scheduler` stands
for kube-scheduler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kubewright.local.controllers.names import select_controllers

if TYPE_CHECKING:
    from kubewright.local.controllers.registry import (
        CONTROLLERS,
        Options,
        add_controllers,
        build_controllers,
    )

__all__ = ["CONTROLLERS", "Options", "add_controllers", "build_controllers", "select_controllers"]


def __getattr__(name: str) -> Any:
    # A command line chooses controllers by name in a process that runs none: their code stays out.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kubewright.local.controllers.registry"), name)
