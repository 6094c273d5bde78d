"""Webhooks: what an API server asks before it stores an object, and to convert one.

The functions are those that `kubewright.runtime.Operator` registers. A server answers with them, on
certificates that it renews while it serves, and keeps the API server told where it is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.webhook.admission import DefaultingWebhook, ValidatingWebhook
    from kubewright.webhook.certificate import Lifetimes, ServingCertificate
    from kubewright.webhook.certificate_source import (
        CertificateSource,
        FileCertificates,
        SecretCertificates,
    )
    from kubewright.webhook.configuration import (
        Endpoint,
        build_configurations,
        build_conversions,
    )
    from kubewright.webhook.conversion import ConversionWebhook
    from kubewright.webhook.observer import CallObserver, WebhookObserver
    from kubewright.webhook.registration import Registration
    from kubewright.webhook.server import WebhookServer

__all__ = [
    "CallObserver",
    "CertificateSource",
    "ConversionWebhook",
    "DefaultingWebhook",
    "Endpoint",
    "FileCertificates",
    "Lifetimes",
    "Registration",
    "SecretCertificates",
    "ServingCertificate",
    "ValidatingWebhook",
    "WebhookObserver",
    "WebhookServer",
    "build_configurations",
    "build_conversions",
]

# Names load at first use: the server and certificates cost an import that most programs never need.
_MODULES = {
    "admission": ("DefaultingWebhook", "ValidatingWebhook"),
    "certificate": ("Lifetimes", "ServingCertificate"),
    "certificate_source": ("CertificateSource", "FileCertificates", "SecretCertificates"),
    "configuration": ("Endpoint", "build_configurations", "build_conversions"),
    "conversion": ("ConversionWebhook",),
    "observer": ("CallObserver", "WebhookObserver"),
    "registration": ("Registration",),
    "server": ("WebhookServer",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
