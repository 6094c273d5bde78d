"""Validation of pods and pod templates."""

from __future__ import annotations

from kubewright.local.apiserver.builtin.pods.spec import validate_pod_spec, validate_pod_template

__all__ = ["validate_pod_spec", "validate_pod_template"]
