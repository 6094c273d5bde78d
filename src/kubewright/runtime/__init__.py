"""The runtime: queue, controllers, manager, desired state. Nothing is lost when anything fails."""

from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller, Reconcile
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.manager import Manager, Runnable
from kubewright.runtime.queue import Priority, WorkQueue
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

__all__ = [
    "Context",
    "Controller",
    "EventRecorder",
    "Manager",
    "Priority",
    "Reconcile",
    "Result",
    "Runnable",
    "Watch",
    "WorkQueue",
]
