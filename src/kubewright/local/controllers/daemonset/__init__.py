"""The DaemonSet controller: one pod on each node that its template fits."""

from __future__ import annotations

from kubewright.local.controllers.daemonset.controller import build_daemonset_controller

__all__ = ["build_daemonset_controller"]
