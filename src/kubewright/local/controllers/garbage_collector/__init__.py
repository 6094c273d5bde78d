"""The garbage collector: what is owned goes when its owners are gone, in the order they ask for."""

from kubewright.local.controllers.garbage_collector.collector import GarbageCollector
from kubewright.local.controllers.garbage_collector.decision import (
    OwnerState,
    plan_collection,
)
from kubewright.local.controllers.garbage_collector.graph import Node, OwnerGraph

__all__ = ["GarbageCollector", "Node", "OwnerGraph", "OwnerState", "plan_collection"]
