"""The identity of the front proxy: how aggregated API servers know this one (requestheader)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.certificates import (
    build_authority,
    build_client_certificate,
    pem_of_certificate,
    pem_of_key,
    write_private,
)

NAME = "front-proxy-client"
_RENEWED_AFTER = timedelta(days=1825)


class FrontProxy(msgspec.Struct, frozen=True):
    """The files of the front proxy: its authority, and the certificate that it shows."""

    authority: Path
    certificate: Path
    key: Path


def ensure_front_proxy(folder: Path, now: datetime) -> FrontProxy:
    """Return the front proxy's identity in a folder, made where it is missing or old.

    Its authority is another one than the cluster's: a client's certificate must not open the
    aggregated API servers.
    """
    front = FrontProxy(
        folder / "front-proxy-ca.crt", folder / "front-proxy.crt", folder / "front-proxy.key"
    )
    marker = folder / "front-proxy.expires"
    files = (front.authority, front.certificate, front.key, marker)
    if all(path.exists() for path in files) and float(marker.read_text()) > now.timestamp():
        return front
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = build_authority(authority_key, now, "front-proxy-ca")
    key = ec.generate_private_key(ec.SECP256R1())
    client = build_client_certificate(key, authority, authority_key, now, common_name=NAME)
    write_private(front.authority, pem_of_certificate(authority))
    write_private(front.key, pem_of_key(key))
    write_private(front.certificate, pem_of_certificate(client))
    write_private(marker, f"{(now + _RENEWED_AFTER).timestamp():.0f}".encode())
    return front


def build_identity_map(client_ca: bytes, front: FrontProxy) -> Object:
    """Build the ConfigMap in which aggregated API servers read whom to trust, and how."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": client_ca.decode(),
            "requestheader-allowed-names": json.dumps([NAME]),
            "requestheader-client-ca-file": front.authority.read_text(),
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        },
    }
