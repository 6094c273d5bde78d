"""Node lifecycle: taints that say what is wrong with a node, and the eviction that follows."""

from kubewright.local.controllers.node_lifecycle.controller import build_node_lifecycle_controller
from kubewright.local.controllers.node_lifecycle.eviction import build_taint_eviction_controller
from kubewright.local.controllers.node_lifecycle.taints import plan_taints

__all__ = ["build_node_lifecycle_controller", "build_taint_eviction_controller", "plan_taints"]
