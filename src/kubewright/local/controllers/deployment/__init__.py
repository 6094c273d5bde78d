"""The Deployment controller: rollouts of ReplicaSets, decided purely and then carried out."""

from kubewright.local.controllers.deployment.controller import build_deployment_controller
from kubewright.local.controllers.deployment.rollout import Rollout, plan_rollout

__all__ = ["Rollout", "build_deployment_controller", "plan_rollout"]
