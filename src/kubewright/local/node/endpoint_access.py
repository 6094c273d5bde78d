"""Who may ask the node's endpoint: certificates and tokens."""

from __future__ import annotations

import hmac
import ssl
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubewright.api.errors import ConfigurationError

ADMINS = "system:masters"
API_SERVER_PREFIX = "kube-apiserver"
VALIDITY = timedelta(days=3650)


class EndpointAccess(msgspec.Struct, frozen=True):
    """Decides who may read logs: the API server, by its client certificate or by a shared token.

    `authority` is the cluster's CA in PEM. An API server shows a client certificate of that CA
    whose organization is system:masters or whose name begins with kube-apiserver; others are
    refused, even if the CA made theirs, for the endpoint asks nobody about their rights.
    """

    authority: bytes | None = None
    token: str = ""

    def is_allowed(self, certificate: Mapping[str, Any] | None, authorization: str) -> bool:
        """Tell whether a request with these proofs is the API server's."""
        scheme, _, token = authorization.partition(" ")
        if self.token and scheme.lower() == "bearer":
            return hmac.compare_digest(token.strip().encode(), self.token.encode())
        names: dict[str, str] = {
            key: value for part in (certificate or {}).get("subject") or () for key, value in part
        }
        if names.get("organizationName") == ADMINS:
            return True
        return names.get("commonName", "").startswith(API_SERVER_PREFIX)

    def build_context(self, addresses: list[str], now: datetime) -> ssl.SSLContext:
        """Build the server's side of TLS, with a fresh certificate signed by itself.

        API servers do not verify a kubelet's certificate unless they are told to.

        Raises:
            ConfigurationError: the authority is not a certificate.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate, key = build_certificate(addresses, now)
        # Python loads a key only from a file.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tls.pem")
            file.touch(mode=0o600)
            file.write_bytes(key + certificate)
            context.load_cert_chain(file)
        if self.authority is not None:
            try:
                context.load_verify_locations(cadata=self.authority.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"the cluster's authority is not PEM: {error}") from error
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def build_certificate(addresses: list[str], now: datetime) -> tuple[bytes, bytes]:
    """Build a certificate for addresses, signed by itself; return it and its key in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubewright-node")])
    names: list[x509.GeneralName] = [x509.IPAddress(ip_address(text)) for text in addresses]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - timedelta(minutes=5))
        .not_valid_after(now.astimezone(UTC) + VALIDITY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
