"""The resource quota controller: what the objects of a namespace use of its quotas."""

from kubewright.local.controllers.resource_quota.controller import build_resource_quota_controller

__all__ = ["build_resource_quota_controller"]
