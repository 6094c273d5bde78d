"""A certificate authority for tests of TLS."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubewright.client.credentials import StaticCredentials
from kubewright.client.tls import ClientCertificate


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Authority:
    """Signs certificates of servers and users."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign("test authority", self._key.public_key(), is_authority=True)
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> ClientCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key.public_key(), is_authority=False)
        return ClientCertificate(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def credentials(self, user: str) -> StaticCredentials:
        return StaticCredentials(certificate=self.issue(user))

    def server_context(self, host: str) -> ssl.SSLContext:
        pair = self.issue(host)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "server.pem"
            path.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(path)
        return context

    def _sign(
        self, name: str, key: ec.EllipticCurvePublicKey, *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name("test authority"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(name.replace(" ", "-"))]), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
