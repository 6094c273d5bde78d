"""Webhook configurations as objects: what an API server asks whom about. All functions are pure."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import Object, Resource
from kubewright.runtime.operator import CONVERT_PATH, Operator
from kubewright.webhook.admission import (
    AdmissionWebhook,
    DefaultingWebhook,
    ValidatingWebhook,
)

VALIDATING_WEBHOOK_CONFIGURATION = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
MUTATING_WEBHOOK_CONFIGURATION = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
INJECT_CA_FROM = "cert-manager.io/inject-ca-from"
"""The annotation by which cert-manager writes caBundle; its value is NAMESPACE/CERTIFICATE."""

MANAGED_BY = "app.kubernetes.io/managed-by"
_TIMEOUT_SECONDS = 10


class Endpoint(msgspec.Struct, frozen=True):
    """Where the API server reaches the webhooks: at a URL, or through a Service.

    Make it with `parse`, which checks.
    """

    url: str = ""
    """For development, where no Service leads; port 0 stands for the one that the server gets."""
    service: str = ""
    """NAMESPACE/NAME, or NAMESPACE/NAME:PORT; the port is 443 by default."""
    inject_ca_from: str = ""
    """The NAMESPACE/CERTIFICATE from which cert-manager writes caBundle; by default we do."""

    @classmethod
    def parse(cls, *, url: str = "", service: str = "", inject_ca_from: str = "") -> Self:
        """Check what a user wrote: a `url` or a `service`, and perhaps `inject_ca_from`.

        Raises:
            ConfigurationError: it is not one HTTPS URL or one Service.
        """
        if bool(url) == bool(service):
            raise ConfigurationError("a webhook is reached at a URL or through a Service: give one")
        parts = urlsplit(url)
        if url and (parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment):
            raise ConfigurationError(
                f"the webhook URL {url} cannot be used: write it as https://HOST:PORT"
            )
        endpoint = cls(url.rstrip("/"), service, inject_ca_from)
        if service:
            endpoint.split_service()
        return endpoint

    def split_service(self) -> tuple[str, str, int]:
        """Return namespace, name and port of the Service.

        Raises:
            ConfigurationError: it is not written as it should be.
        """
        path, colon, port = self.service.partition(":")
        namespace, slash, name = path.partition("/")
        if not (namespace and slash and name) or (colon and not port.isdecimal()):
            raise ConfigurationError(
                f"the webhook Service {self.service} cannot be used: write it as NAMESPACE/NAME"
                " or NAMESPACE/NAME:PORT"
            )
        return namespace, name, int(port) if colon else 443

    @property
    def names(self) -> list[str]:
        """The names that a serving certificate must have."""
        if self.url:
            return [_canonical(urlsplit(self.url).hostname or "")]
        namespace, name, _ = self.split_service()
        return [f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"]

    def at_port(self, port: int) -> Endpoint:
        """Return the endpoint of a server that listens on a port, where the URL leaves it open."""
        parts = urlsplit(self.url)
        if not self.url or parts.port != 0:
            return self
        host = parts.netloc.rpartition(":")[0]
        url = urlunsplit(parts._replace(netloc=f"{host}:{port}"))
        return Endpoint(url, self.service, self.inject_ca_from)

    def build_client_config(self, path: str, authorities: bytes = b"") -> Object:
        """Build the `clientConfig` for a path; `authorities` is the PEM text of its caBundle."""
        config: Object
        if self.url:
            config = {"url": self.url + path}
        else:
            namespace, name, port = self.split_service()
            service = {"namespace": namespace, "name": name, "port": port, "path": path}
            config = {"service": service}
        if authorities and not self.inject_ca_from:
            config["caBundle"] = base64.b64encode(authorities).decode()
        return config


def defaulting_webhooks(operator: Operator) -> list[DefaultingWebhook]:
    """Return the webhooks of the kinds that an operator has functions for."""
    return [DefaultingWebhook(managed) for managed in operator.kinds if managed.default]


def validating_webhooks(operator: Operator) -> list[ValidatingWebhook]:
    """Return the webhooks of the kinds that an operator has functions for."""
    return [
        ValidatingWebhook(managed)
        for managed in operator.kinds
        if managed.validate or managed.validate_delete
    ]


def build_configurations(
    operator: Operator, endpoint: Endpoint, authorities: bytes = b""
) -> list[Object]:
    """Build the configurations of an operator: a mutating and a validating one, where it has any.

    A write fails while nobody answers: what is not checked is not stored. `matchPolicy` is
    Equivalent, so that a write in another version of a kind is converted and checked as well.

    Arguments:
        operator: whose functions are asked.
        endpoint: where the API server reaches them.
        authorities: what it verifies the server by, PEM; empty where somebody else writes that.
    """
    mutating = [
        {**_build_webhook(webhook, endpoint, authorities), "reinvocationPolicy": "IfNeeded"}
        for webhook in defaulting_webhooks(operator)
    ]
    validating = [
        _build_webhook(webhook, endpoint, authorities) for webhook in validating_webhooks(operator)
    ]
    built = (
        (MUTATING_WEBHOOK_CONFIGURATION, mutating),
        (VALIDATING_WEBHOOK_CONFIGURATION, validating),
    )
    return [
        _build_configuration(resource, operator.name, endpoint, webhooks)
        for resource, webhooks in built
        if webhooks
    ]


def build_conversions(
    operator: Operator, endpoint: Endpoint, authorities: bytes = b""
) -> list[Object]:
    """Build the part of each CRD that tells who converts, for kinds with several versions.

    Arguments:
        operator: whose functions convert.
        endpoint: where the API server reaches them.
        authorities: what it verifies the server by, PEM; empty where somebody else writes that.

    Raises:
        ConfigurationError: a kind has several versions, and a conversion is missing.
    """
    definitions: list[Object] = []
    for versions in operator.versions():
        if len(versions) == 1:
            continue
        metadata = {"name": versions[0].resource.group_resource, **_annotations(endpoint)}
        config = endpoint.build_client_config(CONVERT_PATH, authorities)
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
        definitions.append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": metadata,
                "spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}},
            }
        )
    return definitions


def _build_configuration(
    resource: Resource, name: str, endpoint: Endpoint, webhooks: Sequence[Object]
) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {MANAGED_BY: name}, **_annotations(endpoint)},
        "webhooks": list(webhooks),
    }


def _build_webhook(webhook: AdmissionWebhook, endpoint: Endpoint, authorities: bytes) -> Object:
    resource = webhook.resource
    return {
        "name": webhook.name,
        "clientConfig": endpoint.build_client_config(webhook.path, authorities),
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": list(webhook.operations),
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _annotations(endpoint: Endpoint) -> Object:
    if not endpoint.inject_ca_from:
        return {}
    return {"annotations": {INJECT_CA_FROM: endpoint.inject_ca_from}}


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def client_configs_of(obj: Object) -> Iterable[tuple[str, Object]]:
    """Yield JSON pointer and content of each `clientConfig` of a configuration or a CRD."""
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        yield f"/webhooks/{index}/clientConfig", webhook.get("clientConfig") or {}
    webhook = ((obj.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
    if config := webhook.get("clientConfig"):
        yield "/spec/conversion/webhook/clientConfig", config
