"""The node: runs the pods that are bound to it, as processes in namespaces, or simulated."""

from __future__ import annotations

from kubewright.local.node.detection import Detection, detect_runtime
from kubewright.local.node.endpoint_access import EndpointAccess
from kubewright.local.node.node import Node, RuntimeLost, list_nodes_to_enter
from kubewright.local.node.process_runtime import ProcessRuntime
from kubewright.local.node.runtime import PodRuntime
from kubewright.local.node.simulated_runtime import SimulatedRuntime

__all__ = [
    "Detection",
    "EndpointAccess",
    "Node",
    "PodRuntime",
    "ProcessRuntime",
    "RuntimeLost",
    "SimulatedRuntime",
    "detect_runtime",
    "list_nodes_to_enter",
]
