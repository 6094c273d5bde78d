"""TLS settings of a connection, and the SSL contexts made from them."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kubewright.api.errors import ConfigurationError


class ClientCertificate(msgspec.Struct, frozen=True):
    """A certificate and its key in PEM, by which a user proves who they are."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(…)"


class CertificateFiles(msgspec.Struct, frozen=True):
    """Where a certificate and its key are, for when somebody renews them."""

    certificate: Path
    key: Path

    def read(self) -> ClientCertificate:
        """Read both, as they are now.

        Raises:
            OSError: one cannot be read.
            ConfigurationError: they do not fit, as in the middle of their replacement.
        """
        pair = ClientCertificate(self.certificate.read_bytes(), self.key.read_bytes())
        _load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair)
        return pair


class TLSConfig(msgspec.Struct, frozen=True):
    """How the server is verified: by `ca` in PEM, or by the system's authorities without one.

    `server_name` replaces the host of the URL where the certificate bears another name. Where the
    authority came from a file, `ca_file` names it: it is read again after a server could not be
    verified, since clusters replace their authorities too.
    """

    ca: bytes | None = None
    verify: bool = True
    server_name: str | None = None
    ca_file: Path | None = None

    def read_again(self) -> TLSConfig:
        """Return the configuration with its authority as the file has it now, if it has one."""
        try:
            return replace(self, ca=self.ca_file.read_bytes()) if self.ca_file else self
        except OSError:
            # The last one serves while the file is away, as in the middle of its replacement.
            return self


def build_ssl_context(config: TLSConfig, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Build the context for connections of one user.

    Raises:
        ConfigurationError: a certificate or key is not usable PEM.
    """
    try:
        context = ssl.create_default_context(
            cadata=config.ca.decode("ascii") if config.ca is not None else None
        )
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the cluster's certificate authority is not PEM: {error}; "
            "check certificate-authority in the kubeconfig"
        ) from error
    # Python 3.13 asks for extensions that many clusters' authorities lack, and Go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not config.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    # The ssl module reads client certificates from files only; the directory is ours alone (0700)
    # and gone at once.
    with tempfile.TemporaryDirectory(prefix="kubewright-") as directory:
        path = Path(directory) / "client.pem"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate.certificate + b"\n" + certificate.key)
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"the client certificate and its key do not fit or are not PEM: {error}; "
                "check client-certificate and client-key in the kubeconfig"
            ) from error
