"""The scheduler: find a node for each pod, or say why there is none."""

from kubewright.local.controllers.scheduler.controller import build_scheduler
from kubewright.local.controllers.scheduler.placement import Placement, plan_placement

__all__ = ["Placement", "build_scheduler", "plan_placement"]
