"""Who may ask an aggregated API server: the API server in front of it (requestheader)."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.builtin import CONFIG_MAP
from kubewright.api.errors import NotFound
from kubewright.client.client import Client

_NAME, _NAMESPACE = "extension-apiserver-authentication", "kube-system"


class FrontProxyTrust(msgspec.Struct, frozen=True):
    """The authority and the names of the certificates that an API server shows.

    Who has such a certificate has authorized the request: whose it is stands in its headers, and
    does not matter here. Without an authority nobody is trusted.
    """

    authority: str = ""
    names: tuple[str, ...] = ()

    def is_trusted(self, certificate: Mapping[str, Any] | None) -> bool:
        """Tell whether a verified certificate is the front proxy's; with no names any is."""
        if not certificate:
            return False
        found = [
            value for part in certificate["subject"] for key, value in part if key == "commonName"
        ]
        return not self.names or any(name in self.names for name in found)

    def build_context(self, certificate: Path) -> ssl.SSLContext:
        """Build the server's side of TLS; `certificate` is a file with key and certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if self.authority:
            context.load_verify_locations(cadata=self.authority)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


async def read_trust(client: Client) -> FrontProxyTrust:
    """Read whom to trust from the ConfigMap that every API server keeps for this.

    Raises:
        APIError: it may not be read.
    """
    try:
        config_map = await client.get(CONFIG_MAP, _NAME, namespace=_NAMESPACE)
    except NotFound:
        return FrontProxyTrust()
    data = config_map.get("data") or {}
    names = json.loads(data.get("requestheader-allowed-names") or "[]")
    return FrontProxyTrust(data.get("requestheader-client-ca-file") or "", tuple(names))
