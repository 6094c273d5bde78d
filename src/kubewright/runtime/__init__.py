"""The runtime: queue, controllers, manager, desired state. Nothing is lost when anything fails."""

from kubewright.runtime.child_kind import ChildKind
from kubewright.runtime.children import Children
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller, Reconcile
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.manager import Manager, Runnable
from kubewright.runtime.operator import Operator
from kubewright.runtime.queue import Priority, WorkQueue
from kubewright.runtime.readiness import Progress, Readiness, compute_readiness
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch, map_to_controller, map_to_label

__all__ = [
    "ChildKind",
    "Children",
    "Context",
    "Controller",
    "EventRecorder",
    "Manager",
    "Operator",
    "Priority",
    "Progress",
    "Readiness",
    "Reconcile",
    "Result",
    "Runnable",
    "Watch",
    "WorkQueue",
    "compute_readiness",
    "map_to_controller",
    "map_to_label",
]
