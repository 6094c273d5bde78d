"""The disruption controller: how many pods of a budget may go at this moment."""

from kubewright.local.controllers.disruption.controller import build_disruption_controllers

__all__ = ["build_disruption_controllers"]
