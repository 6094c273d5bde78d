"""The runtime: queue, controllers, manager, desired state. Nothing is lost when anything fails."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.runtime.attempt import Attempt, Outcome, Trigger, Write, current_attempt
    from kubewright.runtime.blocking import BlockingContext, ReconcileCancelled
    from kubewright.runtime.child_kind import ChildKind
    from kubewright.runtime.children import Children
    from kubewright.runtime.context import Context
    from kubewright.runtime.controller import Controller, Reconcile
    from kubewright.runtime.desired import Action, Step
    from kubewright.runtime.event_stream import EventStream
    from kubewright.runtime.events import EventRecorder
    from kubewright.runtime.gate import Gate
    from kubewright.runtime.instance_labels import (
        build_instance_labels,
        format_selector,
        map_to_instance,
    )
    from kubewright.runtime.leader_election import LeaderElection, LeadershipLost
    from kubewright.runtime.manager import Manager, ReadinessCheck, Runnable
    from kubewright.runtime.observer import ControllerObserver, Observer
    from kubewright.runtime.operator import Operator
    from kubewright.runtime.pod_problem import PodProblem, build_pods_condition, find_pod_problems
    from kubewright.runtime.preview import PlannedChange, Preview, preview_operator
    from kubewright.runtime.queue import Priority, WorkQueue
    from kubewright.runtime.read import Read
    from kubewright.runtime.readiness import Progress, Readiness, compute_readiness
    from kubewright.runtime.restricted_pod import restrict_pod
    from kubewright.runtime.result import Result
    from kubewright.runtime.user_function import ReconcileTimeout
    from kubewright.runtime.watch import (
        Watch,
        all_of,
        annotations_changed,
        any_of,
        generation_changed,
        labels_changed,
        map_to_controller,
        map_to_label,
    )

__all__ = [
    "Action",
    "Attempt",
    "BlockingContext",
    "ChildKind",
    "Children",
    "Context",
    "Controller",
    "ControllerObserver",
    "EventRecorder",
    "EventStream",
    "Gate",
    "LeaderElection",
    "LeadershipLost",
    "Manager",
    "Observer",
    "Operator",
    "Outcome",
    "PlannedChange",
    "PodProblem",
    "Preview",
    "Priority",
    "Progress",
    "Read",
    "Readiness",
    "ReadinessCheck",
    "Reconcile",
    "ReconcileCancelled",
    "ReconcileTimeout",
    "Result",
    "Runnable",
    "Step",
    "Trigger",
    "Watch",
    "WorkQueue",
    "Write",
    "all_of",
    "annotations_changed",
    "any_of",
    "build_instance_labels",
    "build_pods_condition",
    "compute_readiness",
    "current_attempt",
    "find_pod_problems",
    "format_selector",
    "generation_changed",
    "labels_changed",
    "map_to_controller",
    "map_to_instance",
    "map_to_label",
    "preview_operator",
    "restrict_pod",
]

# Names load at first use: whoever needs one module of the runtime does not wait for the others.
_MODULES = {
    "attempt": ("Attempt", "Outcome", "Trigger", "Write", "current_attempt"),
    "blocking": ("BlockingContext", "ReconcileCancelled"),
    "child_kind": ("ChildKind",),
    "children": ("Children",),
    "context": ("Context",),
    "controller": ("Controller", "Reconcile"),
    "desired": ("Action", "Step"),
    "event_stream": ("EventStream",),
    "events": ("EventRecorder",),
    "gate": ("Gate",),
    "instance_labels": ("build_instance_labels", "format_selector", "map_to_instance"),
    "leader_election": ("LeaderElection", "LeadershipLost"),
    "manager": ("Manager", "ReadinessCheck", "Runnable"),
    "observer": ("ControllerObserver", "Observer"),
    "operator": ("Operator",),
    "pod_problem": ("PodProblem", "build_pods_condition", "find_pod_problems"),
    "preview": ("PlannedChange", "Preview", "preview_operator"),
    "queue": ("Priority", "WorkQueue"),
    "read": ("Read",),
    "readiness": ("Progress", "Readiness", "compute_readiness"),
    "restricted_pod": ("restrict_pod",),
    "result": ("Result",),
    "user_function": ("ReconcileTimeout",),
    "watch": (
        "Watch",
        "all_of",
        "annotations_changed",
        "any_of",
        "generation_changed",
        "labels_changed",
        "map_to_controller",
        "map_to_label",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
