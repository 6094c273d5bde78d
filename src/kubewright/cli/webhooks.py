"""What `kubewright run` serves to the API server: webhooks."""

from __future__ import annotations

import argparse
import ipaddress
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import NamespacedName

if TYPE_CHECKING:
    from kubewright.client import Client, KubeConfig
    from kubewright.runtime import Operator
    from kubewright.telemetry import BindAddress
    from kubewright.webhook import CertificateSource, Endpoint, WebhookObserver, WebhookServer

_FLAGS = ("--webhook-url", "--webhook-service", "--webhook-cert-dir")

_logger = logging.getLogger("kubewright")


def add_webhook_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--webhook-bind-address",
        metavar="ADDRESS",
        default="0",
        help="serve webhooks there, such as :9443, and register them (default: 0, nowhere)",
    )
    parser.add_argument(
        "--webhook-url",
        metavar="URL",
        default="",
        help="where the API server reaches them, for development "
        "(default: the bind address, if the API server is on this machine)",
    )
    parser.add_argument(
        "--webhook-service",
        metavar="NAMESPACE/NAME",
        default="",
        help="the Service through which the API server reaches them",
    )
    parser.add_argument(
        "--webhook-cert-dir",
        metavar="DIR",
        type=Path,
        help="folder of tls.crt, tls.key and ca.crt, read again when they change "
        "(default: certificates of its own, in a Secret)",
    )


class Webhooks(NamedTuple):
    """Where webhooks are served and how the API server reaches them; nowhere without an address.

    Without an endpoint, manifests say where they are.
    """

    address: BindAddress | None
    endpoint: Endpoint | None
    folder: Path | None

    @classmethod
    def parse(cls, options: argparse.Namespace, server: str) -> Self:
        """Read the flags; `server` is the URL of the API server.

        Raises:
            ConfigurationError: they do not fit together.
        """
        from kubewright.telemetry import BindAddress

        address = BindAddress.parse(options.webhook_bind_address, "--webhook-bind-address")
        folder: Path | None = options.webhook_cert_dir
        if address is None:
            if options.webhook_url or options.webhook_service or folder:
                raise ConfigurationError(
                    f"{', '.join(_FLAGS)} need --webhook-bind-address, such as :9443"
                )
            return cls(None, None, None)
        return cls(address, _build_endpoint(options, address, server), folder)

    def build_server(
        self,
        operators: Sequence[Operator],
        client: Client,
        config: KubeConfig,
        observer: WebhookObserver | None,
    ) -> WebhookServer | None:
        """Build the server; None where none is asked for, or no operator has such functions."""
        if self.address is None:
            return None
        from kubewright.webhook import Registration, WebhookServer

        server = WebhookServer(
            operators,
            host=self.address.host,
            port=self.address.port,
            certificates=self._build_source(operators, client, config),
            endpoint=self.endpoint,
            registration=Registration(client, operators) if self.endpoint else None,
            observer=observer,
        )
        if not server.webhooks:
            _logger.info("no operator has functions for webhooks: none are served")
            return None
        return server

    def _build_source(
        self, operators: Sequence[Operator], client: Client, config: KubeConfig
    ) -> CertificateSource:
        from kubewright.client.clock import SystemClock
        from kubewright.webhook import FileCertificates, SecretCertificates

        if self.folder is not None:
            return FileCertificates(self.folder)
        namespace = config.namespace
        if self.endpoint is not None and self.endpoint.service:
            namespace = self.endpoint.split_service()[0]
        name = "-".join(operator.name for operator in operators)
        key = NamespacedName(namespace, f"{name}-webhook-cert")
        return SecretCertificates(client, key, clock=SystemClock())


def _build_endpoint(
    options: argparse.Namespace, address: BindAddress, server: str
) -> Endpoint | None:
    from kubewright.webhook import Endpoint

    if options.webhook_url or options.webhook_service:
        return Endpoint.parse(url=options.webhook_url, service=options.webhook_service)
    if is_loopback(urlsplit(server).hostname or ""):
        host = f"[{address.host}]" if ":" in address.host else address.host
        if address.host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        return Endpoint.parse(url=f"https://{host}:{address.port}")
    if options.webhook_cert_dir is not None:
        return None
    raise ConfigurationError(
        "--webhook-bind-address: the API server is on another machine; tell how it reaches this "
        "process: --webhook-service NAMESPACE/NAME in a cluster, or --webhook-url https://HOST:PORT"
    )


def is_loopback(host: str) -> bool:
    """Tell whether a host of a URL is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
