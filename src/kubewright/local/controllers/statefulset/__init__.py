"""The StatefulSet controller: pods with names, numbers and volumes that stay theirs."""

from __future__ import annotations

from kubewright.local.controllers.statefulset.controller import build_statefulset_controller

__all__ = ["build_statefulset_controller"]
