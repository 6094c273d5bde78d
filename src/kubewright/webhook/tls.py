"""The TLS side of a server whose certificate changes while it serves."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from kubewright.api.errors import ConfigurationError
from kubewright.webhook.certificate import ServingCertificate


class SwappableTLS:
    """One TLS context for a listener, behind which the certificate is swapped as a whole.

    Each handshake takes the newest certificate; connections that stand are left alone. A handshake
    that has begun ends with the certificate that it began with.
    """

    def __init__(self) -> None:
        self._current: ssl.SSLContext | None = None
        self._serving: ServingCertificate | None = None
        self.context = _build_context()
        # Called in every handshake, also where the client names no server. Loading another pair
        # into a context in use would keep the old one beside it when their kinds of key differ.
        self.context.sni_callback = self._choose

    @property
    def is_loaded(self) -> bool:
        """Tell whether there is a certificate to show."""
        return self._current is not None

    def load(self, serving: ServingCertificate) -> bool:
        """Take another certificate; tell whether it is another one.

        Raises:
            ConfigurationError: certificate and key do not fit together.
        """
        if self._serving is not None and (serving.certificate, serving.key) == (
            self._serving.certificate,
            self._serving.key,
        ):
            return False
        context = _build_context()
        with tempfile.TemporaryDirectory(prefix="kubewright-") as folder:
            # The ssl module reads files only. The folder is readable for this user alone.
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(serving.certificate)
            key.write_bytes(serving.key)
            try:
                context.load_cert_chain(certificate, key, password="")
            except (ssl.SSLError, ValueError) as error:
                raise ConfigurationError(
                    f"the webhook's certificate and key cannot be used: {error}"
                ) from error
        self._current, self._serving = context, serving
        return True

    def _choose(
        self, connection: ssl.SSLObject, server_name: str | None, listener: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _build_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would go on with a certificate that was replaced.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context
