"""The Job controller: run pods until enough of them have succeeded, and count each exactly once."""

from kubewright.local.controllers.job.controller import build_job_controller
from kubewright.local.controllers.job.orphan import build_orphan_pod_controller
from kubewright.local.controllers.job.ttl import build_ttl_controller

__all__ = ["build_job_controller", "build_orphan_pod_controller", "build_ttl_controller"]
