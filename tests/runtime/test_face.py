"""The public names of the room, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import kubewright.runtime


def test_the_public_names_are_these() -> None:
    assert kubewright.runtime.__all__ == [
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
    assert all(hasattr(kubewright.runtime, name) for name in kubewright.runtime.__all__)


def test_importing_loads_neither_pydantic_nor_http() -> None:
    code = "import sys, kubewright.runtime; print({'pydantic', 'aiohttp'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "set()"
