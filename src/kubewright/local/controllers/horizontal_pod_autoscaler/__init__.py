"""The horizontal pod autoscaler: as many replicas as the metrics ask for (autoscaling/v2)."""

from kubewright.local.controllers.horizontal_pod_autoscaler.controller import (
    build_autoscaler_controller,
)

__all__ = ["build_autoscaler_controller"]
