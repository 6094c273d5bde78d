"""Credentials: what a request carries to say who asks, renewed while the process lives."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from kubewright.api.errors import ConfigurationError
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.tls import CertificateFiles, ClientCertificate

TOKEN_FILE_SECONDS = 60.0


class Credential(msgspec.Struct, frozen=True):
    """What one request carries: headers, and the certificate of its connection."""

    headers: Mapping[str, str] = {}
    certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        # Without the headers: they are secret.
        return f"<Credential with {', '.join(self.headers) or 'no header'}>"


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """Return what to send now.

        Raises:
            ConfigurationError: there is nothing to send; the message says why.
        """
        ...

    def invalidate(self) -> None:
        """Learn that the server refused the current ones with 401: get others next time."""
        ...


class StaticCredentials:
    """Credentials that never change: a token, a password, a certificate, or none at all."""

    def __init__(
        self,
        *,
        token: str = "",
        username: str = "",
        password: str = "",
        certificate: ClientCertificate | None = None,
    ) -> None:
        headers = {}
        if token:
            headers = build_bearer(token)
        elif username:
            pair = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
            headers = {"Authorization": f"Basic {pair}"}
        self._credential = Credential(headers, certificate)

    async def current(self) -> Credential:
        """Return the credentials."""
        return self._credential

    def invalidate(self) -> None:
        """Do nothing: there are no others."""


class TokenFile:
    """A token in a file that somebody renews, such as a service account's in a pod.

    The file is read at most once a minute, and after a 401. While it cannot be read, the last token
    stays in use.
    """

    def __init__(
        self,
        path: Path,
        *,
        certificate: ClientCertificate | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._clock = clock or SystemClock()
        self._token = ""
        self._read_at: float | None = None

    async def current(self) -> Credential:
        """Return the token, read afresh when a minute has passed."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= TOKEN_FILE_SECONDS:
            await self._read()
            self._read_at = now
        return Credential(build_bearer(self._token), self._certificate)

    def invalidate(self) -> None:
        """Read the file again next time."""
        self._read_at = None

    async def _read(self) -> None:
        try:
            text = await asyncio.to_thread(self._path.read_text, "utf-8")
        except (OSError, UnicodeDecodeError) as error:
            if not self._token:
                raise ConfigurationError(
                    f"the token file {self._path} cannot be read: {error}; "
                    "check that it is mounted and readable"
                ) from error
            return
        token = text.strip()
        if not token and not self._token:
            raise ConfigurationError(f"the token file {self._path} is empty")
        self._token = token or self._token


class RenewedCertificate:
    """A client certificate in files that somebody renews, beside other credentials.

    The files are read at most once a minute, and after a refusal. While they cannot be read, or do
    not fit each other yet, the last certificate stays in use.
    """

    def __init__(
        self,
        inner: Credentials,
        files: CertificateFiles,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._inner = inner
        self._files = files
        self._clock = clock or SystemClock()
        self._certificate: ClientCertificate | None = None
        self._read_at: float | None = None

    async def current(self) -> Credential:
        """Return the other credentials with the certificate, read afresh when a minute has passed.

        Raises:
            ConfigurationError: there never was one that could be read.
        """
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= TOKEN_FILE_SECONDS:
            await self._read()
            self._read_at = now
        return replace(await self._inner.current(), certificate=self._certificate)

    def invalidate(self) -> None:
        """Read the files again next time."""
        self._read_at = None
        self._inner.invalidate()

    async def _read(self) -> None:
        try:
            self._certificate = await asyncio.to_thread(self._files.read)
        except (OSError, ConfigurationError) as error:
            if self._certificate is None:
                raise ConfigurationError(
                    f"the client certificate cannot be read: {error}"
                ) from error


class Impersonation(msgspec.Struct, frozen=True):
    """The user to act as; the server checks that the real one may `impersonate`."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


def build_bearer(token: str) -> dict[str, str]:
    """Build the header that carries a token."""
    return {"Authorization": f"Bearer {token}"}
