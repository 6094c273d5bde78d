"""The cluster's own certificate authority, the serving certificate, the token key."""

from __future__ import annotations

import ipaddress
import os
import secrets
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_YEARS = timedelta(days=3650)
SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
_FILES = (
    "ca.crt",
    "ca.key",
    "apiserver.crt",
    "apiserver.key",
    "kubelet-client.crt",
    "kubelet-client.key",
    "sa.key",
    "sa.pub",
    "token",
)


class Certificates(msgspec.Struct, frozen=True):
    """The files of a cluster's identity, all in one folder of mode 0700.

    `ca.crt` signs `apiserver.crt` and `kubelet-client.crt`, which the API server shows to nodes;
    `sa.key` signs ServiceAccount tokens; `token` is the bearer token of the administrator.
    """

    folder: Path

    def path(self, name: str) -> Path:
        """Return the path of one of the files."""
        return self.folder / name

    @property
    def ca(self) -> bytes:
        """The certificate authority as PEM."""
        return self.path("ca.crt").read_bytes()

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.path("token").read_text().strip()

    def tls_context(self) -> ssl.SSLContext:
        """Build the server's TLS context; client certificates are taken where they are sent."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("apiserver.crt"), self.path("apiserver.key"))
        context.load_verify_locations(self.path("ca.crt"))
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context


def ensure_certificates(folder: Path, addresses: Sequence[str], now: datetime) -> Certificates:
    """Return the identity in a folder, made where it is missing, incomplete or about to expire.

    A second start with the same addresses reads files and signs nothing.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificates = Certificates(folder)
    wanted = "\n".join([*SERVICE_NAMES, *addresses])
    marker = folder / "names"
    complete = all((folder / name).exists() for name in _FILES)
    if complete and marker.exists():
        names, _, expires = marker.read_text().rpartition("\n")
        if names == wanted and float(expires) > now.timestamp():
            return certificates
    _create(folder, addresses, now, keep=complete)
    expires_at = (now + _YEARS / 2).timestamp()
    write_private(marker, f"{wanted}\n{expires_at:.0f}".encode())
    return certificates


def _create(folder: Path, addresses: Sequence[str], now: datetime, *, keep: bool) -> None:
    """Make everything; with `keep` only the certificates that the authority signs."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if not keep:
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(folder / "ca.key", pem_of_key(key))
        write_private(folder / "ca.crt", pem_of_certificate(build_authority(key, now)))
        signing = ec.generate_private_key(ec.SECP256R1())
        write_private(folder / "sa.key", pem_of_key(signing))
        public = signing.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_private(folder / "sa.pub", public)
        write_private(folder / "token", secrets.token_hex(24).encode())
    authority_key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{folder / 'ca.key'} is no elliptic-curve key")
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    serving = _serving(key, authority, authority_key, addresses, now)
    write_private(folder / "apiserver.key", pem_of_key(key))
    write_private(folder / "apiserver.crt", pem_of_certificate(serving))
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(folder / "kubelet-client.key", pem_of_key(key))
    client = build_client_certificate(
        key,
        authority,
        authority_key,
        now,
        common_name="kube-apiserver-kubelet-client",
        organization="system:masters",
    )
    write_private(folder / "kubelet-client.crt", pem_of_certificate(client))


def build_authority(
    key: EllipticCurvePrivateKey, now: datetime, common_name: str = "kubewright-ca"
) -> x509.Certificate:
    """Build the certificate of an authority, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key, now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return builder.sign(key, hashes.SHA256())


def _serving(
    key: EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
    addresses: Sequence[str],
    now: datetime,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kube-apiserver")])
    names: list[x509.GeneralName] = [x509.DNSName(dns) for dns in SERVICE_NAMES]
    for address in addresses:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
    builder = _builder(name, authority.subject, key, now)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    usage = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(usage, critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = builder.add_extension(issuer, critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def build_client_certificate(
    key: EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
    now: datetime,
    *,
    common_name: str,
    organization: str = "",
) -> x509.Certificate:
    """Build a certificate that an authority signs for a client of this name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    parts = [x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, common_name)]
    if organization:
        named = x509.NameAttribute(x509.oid.NameOID.ORGANIZATION_NAME, organization)
        parts.insert(0, named)
    name = x509.Name(parts)
    builder = _builder(name, authority.subject, key, now)
    usage = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(usage, critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _builder(
    name: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    # A clock that runs behind must not refuse a certificate that was made a moment ago.
    start = now.astimezone(UTC) - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _YEARS)
    )


def pem_of_key(key: EllipticCurvePrivateKey) -> bytes:
    """Write a private key as PEM."""
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def pem_of_certificate(certificate: x509.Certificate) -> bytes:
    """Write a certificate as PEM."""
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that nobody else may read, whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(fresh, path)
