"""The nouns of Kubernetes: names, metadata, conditions, errors, custom resources. No I/O."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kubewright.api import builtin

if TYPE_CHECKING:
    from kubewright.api.conditions import (
        READY,
        RECONCILING,
        STALLED,
        Condition,
        find_condition,
        is_condition_true,
        set_condition,
    )
    from kubewright.api.custom_resource import Column, CustomResource, Model, Scale, Status, ready
    from kubewright.api.errors import APIError, Cause, KubewrightError, Remedy, TerminalError
    from kubewright.api.metadata import (
        ObjectMeta,
        OwnerReference,
        build_owner_reference,
        controller_of,
    )
    from kubewright.api.quantity import Quantity
    from kubewright.api.resource import (
        GroupKind,
        GroupVersionKind,
        NamespacedName,
        Object,
        Resource,
    )
    from kubewright.api.rule import Rule, build_rules

__all__ = [
    "READY",
    "RECONCILING",
    "STALLED",
    "APIError",
    "Cause",
    "Column",
    "Condition",
    "CustomResource",
    "GroupKind",
    "GroupVersionKind",
    "KubewrightError",
    "Model",
    "NamespacedName",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Quantity",
    "Remedy",
    "Resource",
    "Rule",
    "Scale",
    "Status",
    "TerminalError",
    "build_owner_reference",
    "build_rules",
    "builtin",
    "controller_of",
    "find_condition",
    "is_condition_true",
    "ready",
    "set_condition",
]

# Names load at first use: pydantic is half of the import time, and a control plane needs it never.
_MODULES = {
    "conditions": (
        "Condition",
        "READY",
        "RECONCILING",
        "STALLED",
        "find_condition",
        "is_condition_true",
        "set_condition",
    ),
    "custom_resource": ("Column", "CustomResource", "Model", "Scale", "Status", "ready"),
    "errors": ("APIError", "Cause", "KubewrightError", "Remedy", "TerminalError"),
    "metadata": ("ObjectMeta", "OwnerReference", "build_owner_reference", "controller_of"),
    "quantity": ("Quantity",),
    "resource": ("GroupKind", "GroupVersionKind", "NamespacedName", "Object", "Resource"),
    "rule": ("Rule", "build_rules"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
