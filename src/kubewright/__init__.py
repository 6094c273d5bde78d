"""Kubernetes operators in Python that provably converge.

A tour, in the order in which one meets things:

- `CustomResource`, `Model`, `Status`, `Scale`, `Column`, `Rule` (kubewright.api): declare a kind as
  pydantic models; its CustomResourceDefinition follows.
- `Operator` (kubewright.runtime): say what should exist for each object, as a pure function.
- `ChildKind`, `Gate`: how its children are treated, and in which order they come.
- `Children`, `Context`, `Result`, `Watch`: what those functions see, use and answer.
- `BlockingContext`: what a plain `def` gets in place of a `Context`; it runs in a thread.
- `build_instance_labels`, `map_to_instance`, `format_selector`: lead from an object to its pods.
- `restrict_pod`: brings a pod to the restricted Pod Security level.
- `build_pods_condition`: says in a status what keeps pods from running.
- `TerminalError`: raised to say that nothing helps until the object changes.
- `Client`, `KubeConfig`, `connect` (kubewright.client): talk to an API server directly.
- `Controller`, `Manager`: the layer below `Operator`, for what it does not cover.
- `kubewright.local`: a control plane on this machine; `kubewright local up` starts it.

Names load at first use: importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.api import (
        Column,
        Condition,
        CustomResource,
        KubewrightError,
        Model,
        NamespacedName,
        Object,
        ObjectMeta,
        Quantity,
        Resource,
        Rule,
        Scale,
        Status,
        TerminalError,
        build_rules,
        builtin,
        ready,
    )
    from kubewright.client import Client, KubeConfig, connect
    from kubewright.runtime import (
        BlockingContext,
        ChildKind,
        Children,
        Context,
        Controller,
        Gate,
        Manager,
        Operator,
        Result,
        Watch,
        build_instance_labels,
        build_pods_condition,
        format_selector,
        map_to_controller,
        map_to_instance,
        map_to_label,
        restrict_pod,
    )

_ROOMS = {
    "kubewright.api": (
        *("Column", "Condition", "CustomResource", "KubewrightError", "Model", "NamespacedName"),
        *("Object", "ObjectMeta", "Quantity", "Resource", "Rule", "Scale", "Status"),
        *("TerminalError", "build_rules", "builtin", "ready"),
    ),
    "kubewright.client": ("Client", "KubeConfig", "connect"),
    "kubewright.runtime": (
        *("BlockingContext", "ChildKind", "Children", "Context", "Controller", "Gate", "Manager"),
        *("Operator", "Result", "Watch", "build_instance_labels", "build_pods_condition"),
        *("format_selector", "map_to_controller", "map_to_instance", "map_to_label"),
        "restrict_pod",
    ),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "BlockingContext",
    "ChildKind",
    "Children",
    "Client",
    "Column",
    "Condition",
    "Context",
    "Controller",
    "CustomResource",
    "Gate",
    "KubeConfig",
    "KubewrightError",
    "Manager",
    "Model",
    "NamespacedName",
    "Object",
    "ObjectMeta",
    "Operator",
    "Quantity",
    "Resource",
    "Result",
    "Rule",
    "Scale",
    "Status",
    "TerminalError",
    "Watch",
    "build_instance_labels",
    "build_pods_condition",
    "build_rules",
    "builtin",
    "connect",
    "format_selector",
    "map_to_controller",
    "map_to_instance",
    "map_to_label",
    "ready",
    "restrict_pod",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOM_OF[name]), name)
