"""The ReplicaSet controller: keep as many pods of one template as are wished for."""

from kubewright.local.controllers.replicaset.controller import build_replicaset_controller
from kubewright.local.controllers.replicaset.scale import Scale, plan_scale

__all__ = ["Scale", "build_replicaset_controller", "plan_scale"]
