"""Certificates of our own: an authority, the serving certificate that it signs, and their ages."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_BACKDATED = timedelta(hours=1)
"""A machine whose clock is behind must not refuse a certificate that was made a moment ago."""


class ServingCertificate(msgspec.Struct, frozen=True):
    """What a server shows, and what verifies it; all PEM.

    `authorities` is empty where whoever made the certificate tells clients what to trust.
    """

    certificate: bytes
    key: bytes
    authorities: bytes = b""


class Lifetimes(msgspec.Struct, frozen=True):
    """How long an authority and a serving certificate live; both are renewed at two thirds."""

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=90)


class Material(msgspec.Struct, frozen=True):
    """All that the replicas of an operator share: a Secret's content, decoded.

    `authorities` begins with the newest; `authority_key` is its key. A serving certificate that
    an older one signed is one that waits to be replaced.
    """

    authorities: tuple[x509.Certificate, ...]
    authority_key: EllipticCurvePrivateKey
    serving: x509.Certificate
    serving_key: EllipticCurvePrivateKey

    @property
    def is_waiting(self) -> bool:
        """Tell whether a new authority was introduced that signs nothing yet."""
        return not is_signed_by(self.serving, self.authorities[0])


def make_authority(
    now: datetime, lifetime: timedelta
) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    """Make an authority that signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    # Its time tells it from those before: clients look issuers up by their name.
    name = _name(f"kubewright-webhook-ca@{now.timestamp():.6f}")
    builder = _builder(name, name, key, now, now + lifetime)
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    builder = builder.add_extension(constraints, critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return _sign(builder.add_extension(identifier, critical=False), key), key


def make_serving(
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
    names: Sequence[str],
    now: datetime,
    lifetime: timedelta,
) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    """Make a serving certificate for DNS names and IP addresses; it ends before its authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, authority.not_valid_after_utc)
    builder = _builder(_name("kubewright-webhook"), authority.subject, key, now, end)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    builder = builder.add_extension(alternatives, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    purpose = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(purpose, critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return _sign(builder.add_extension(issuer, critical=False), authority_key), key


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Tell whether an authority signed a certificate."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names_of(certificate: x509.Certificate) -> set[str]:
    """Return the DNS names and IP addresses that a certificate is for."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(address) for address in found.get_values_for_type(x509.IPAddress)}
    return addresses | set(found.get_values_for_type(x509.DNSName))


def encode_certificates(certificates: Sequence[x509.Certificate]) -> bytes:
    """Write certificates as PEM, one after the other."""
    from cryptography.hazmat.primitives import serialization

    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def encode_key(key: EllipticCurvePrivateKey) -> bytes:
    """Write a private key as PEM."""
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def decode_key(pem: bytes) -> EllipticCurvePrivateKey:
    """Read a private key.

    Raises:
        ValueError: it is none of the kind that is made here.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("it is not an elliptic-curve key")
    return key


def _name(common_name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    name: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    now: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _BACKDATED)
        .not_valid_after(end.astimezone(UTC))
    )


def _sign(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())
