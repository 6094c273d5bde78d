"""The admission plugins that are always there, in their order."""

from __future__ import annotations

from kubewright.local.apiserver.admission import Plugin
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.default_classes import DefaultClasses
from kubewright.local.apiserver.limit_ranges import LimitRanger
from kubewright.local.apiserver.mutating_policy_admission import MutatingPolicyAdmission
from kubewright.local.apiserver.pod_admission import (
    DefaultTolerationSeconds,
    PodPriority,
    ServiceAccountAdmission,
)
from kubewright.local.apiserver.pod_resize_validator import PodResizeValidator
from kubewright.local.apiserver.pod_security import PodSecurity
from kubewright.local.apiserver.policy_admission import PolicyAdmission
from kubewright.local.apiserver.quotas import QuotaAdmission
from kubewright.local.apiserver.runtime_class_admission import RuntimeClassAdmission
from kubewright.local.apiserver.service_addresses import ServiceAddresses
from kubewright.local.apiserver.webhook_admission import WebhookAdmission
from kubewright.local.apiserver.webhook_call import WebhookCaller


def builtin_plugins(backend: Backend, caller: WebhookCaller) -> list[Plugin]:
    """Return the plugins that follow NamespaceLifecycle; `caller` asks the webhooks."""
    return [
        ServiceAccountAdmission(backend),
        PodPriority(backend),
        DefaultTolerationSeconds(),
        RuntimeClassAdmission(backend),
        DefaultClasses(backend),
        LimitRanger(backend),
        PodResizeValidator(backend),
        PodSecurity(backend),
        MutatingPolicyAdmission(backend),
        PolicyAdmission(backend),
        WebhookAdmission(backend, caller),
        ServiceAddresses(backend),
        # The last: between its count and the write nothing else may run.
        QuotaAdmission(backend),
    ]
