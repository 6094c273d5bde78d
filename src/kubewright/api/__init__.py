"""The nouns of Kubernetes: names, metadata, conditions, errors, custom resources. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubewright.api import builtin
from kubewright.api.conditions import (
    READY,
    RECONCILING,
    STALLED,
    Condition,
    find_condition,
    is_condition_true,
    set_condition,
)
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

if TYPE_CHECKING:
    from kubewright.api.custom_resource import Column, CustomResource, Scale, Status, ready

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
    "NamespacedName",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Quantity",
    "Remedy",
    "Resource",
    "Scale",
    "Status",
    "TerminalError",
    "build_owner_reference",
    "builtin",
    "controller_of",
    "find_condition",
    "is_condition_true",
    "ready",
    "set_condition",
]

# Pydantic is half of the import time and the control plane never needs it: these load at first use.
_LAZY = frozenset({"Column", "CustomResource", "Scale", "Status", "ready"})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from kubewright.api import custom_resource

        return getattr(custom_resource, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
