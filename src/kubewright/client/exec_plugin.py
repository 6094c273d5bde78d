"""Credential plugins: programs that print an ExecCredential (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.credentials import Credential, build_bearer
from kubewright.client.tls import ClientCertificate

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_TIMEOUT_SECONDS = 60.0
# A credential about to expire is renewed before it can be refused on its way.
_EARLY = timedelta(seconds=10)


class ExecConfig(msgspec.Struct, frozen=True):
    """How to run a plugin: the `exec` part of a kubeconfig's user.

    `cluster` is handed to the plugin in KUBERNETES_EXEC_INFO where it asks for it.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    api_version: str = API_VERSIONS[0]
    install_hint: str = ""
    interactive: bool = False
    cluster: Object | None = None


class ExecPlugin:
    """Credentials from a plugin, kept until they expire or the server refuses them."""

    def __init__(self, config: ExecConfig, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        # Requests that start together must not start a plugin each.
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        """Return the plugin's credentials, asking it again once they have expired.

        Raises:
            ConfigurationError: the plugin is missing, fails, or prints no credential.
        """
        async with self._running:
            if self._credential is None or self._is_expired():
                output = await run_plugin(self._config)
                self._credential, self._expires = decode_exec_credential(output, self._config)
            return self._credential

    def invalidate(self) -> None:
        """Ask the plugin again next time."""
        self._credential = None

    def _is_expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires - _EARLY


async def run_plugin(config: ExecConfig) -> bytes:
    """Run a plugin and return what it printed.

    Raises:
        ConfigurationError: it cannot be started, fails, or takes longer than a minute.
    """
    environment = {**os.environ, **config.env, "KUBERNETES_EXEC_INFO": build_exec_info(config)}
    try:
        process = await asyncio.create_subprocess_exec(
            config.command,
            *config.args,
            env=environment,
            stdin=None if config.interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {config.install_hint.strip()}" if config.install_hint else ""
        raise ConfigurationError(
            f"the credential plugin {config.command} cannot be started: {error}{hint}"
        ) from error
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise ConfigurationError(
            f"the credential plugin {config.command} did not finish in {_TIMEOUT_SECONDS:.0f} s"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = complaint.decode("utf-8", "replace").strip()[-500:]
        raise ConfigurationError(
            f"the credential plugin {config.command} failed with exit code "
            f"{process.returncode}: {said or 'it printed nothing'}"
        )
    return output


def build_exec_info(config: ExecConfig) -> str:
    """Build KUBERNETES_EXEC_INFO, by which a plugin learns its protocol and its cluster."""
    spec: Object = {"interactive": config.interactive and sys.stdin.isatty()}
    if config.cluster is not None:
        spec["cluster"] = config.cluster
    info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def decode_exec_credential(output: bytes, config: ExecConfig) -> tuple[Credential, datetime | None]:
    """Read what a plugin printed: the credential, and when it expires.

    Raises:
        ConfigurationError: it is no ExecCredential of the configured version, or an empty one.
    """
    try:
        printed: dict[str, Any] = msgspec.json.decode(output, type=dict[str, Any])
        status: dict[str, Any] = msgspec.convert(printed.get("status") or {}, dict[str, Any])
        expires = status.get("expirationTimestamp")
        expiry = parse_time(expires) if expires else None
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"the credential plugin {config.command} printed no ExecCredential: {error}"
        ) from error
    if printed.get("apiVersion") != config.api_version:
        raise ConfigurationError(
            f"the credential plugin {config.command} printed apiVersion "
            f"{printed.get('apiVersion')!r} where the kubeconfig says {config.api_version!r}: "
            "make them the same"
        )
    token = status.get("token") or ""
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not token and not (certificate and key):
        raise ConfigurationError(
            f"the credential plugin {config.command} printed neither a token nor a client "
            "certificate with its key"
        )
    pair = ClientCertificate(certificate.encode(), key.encode()) if certificate and key else None
    return Credential(build_bearer(token) if token else {}, pair), expiry
