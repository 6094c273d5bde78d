"""Volumes and claims: binding, protection while they are used, growing."""

from __future__ import annotations

from kubewright.local.controllers.persistent_volume.binder import build_binder_controllers
from kubewright.local.controllers.persistent_volume.ephemeral import build_ephemeral_controller
from kubewright.local.controllers.persistent_volume.expander import build_expander_controller
from kubewright.local.controllers.persistent_volume.protection import (
    build_claim_protection_controller,
    build_volume_protection_controller,
)

__all__ = [
    "build_binder_controllers",
    "build_claim_protection_controller",
    "build_ephemeral_controller",
    "build_expander_controller",
    "build_volume_protection_controller",
]
