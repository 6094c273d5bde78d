"""From a configuration to a client that is ready to ask."""

from __future__ import annotations

from kubewright.client.client import MAX_IN_FLIGHT, Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.credentials import (
    Credentials,
    RenewedCertificate,
    StaticCredentials,
    TokenFile,
)
from kubewright.client.exec_plugin import ExecPlugin
from kubewright.client.http_transport import HTTPTransport
from kubewright.client.kubeconfig import KubeConfig, User


def connect(
    config: KubeConfig,
    *,
    field_manager: str = "kubewright",
    user_agent: str = "",
    clock: Clock | None = None,
    max_in_flight: int = MAX_IN_FLIGHT,
) -> Client:
    """Build a client for a configuration; it connects at its first request. Close it at the end.

        async with connect(KubeConfig.load()) as client:
            pods = await client.list(builtin.POD, namespace="default")

    Arguments:
        config: which API server, and who asks; see `KubeConfig.load`.
        field_manager: who owns the fields that the client writes.
        user_agent: how the client names itself; by default program, version and platform.
        clock: what the client waits by.
        max_in_flight: how many of its requests are under way at once; others wait. Watches do not
            count.

    Credentials and certificates are read at the first request, which raises ConfigurationError
    where they cannot be.
    """
    clock = clock or SystemClock()
    transport = HTTPTransport(
        config.server,
        tls=config.tls,
        credentials=build_credentials(config.user, clock),
        impersonation=config.user.impersonation,
        proxy=config.proxy,
    )
    return Client(
        transport,
        field_manager=field_manager,
        user_agent=user_agent,
        clock=clock,
        max_in_flight=max_in_flight,
    )


def build_credentials(user: User, clock: Clock) -> Credentials:
    """Choose the source of a user's credentials.

    As client-go does: a token file goes before a token, either goes before a plugin, and a plugin
    before a password. A certificate in files is read again while the process lives.
    """
    chosen = _choose_credentials(user, clock)
    if user.certificate_files is None or isinstance(chosen, ExecPlugin):
        return chosen
    return RenewedCertificate(chosen, user.certificate_files, clock=clock)


def _choose_credentials(user: User, clock: Clock) -> Credentials:
    if user.token_file is not None:
        return TokenFile(user.token_file, certificate=user.certificate, clock=clock)
    if user.exec is not None and not user.token:
        return ExecPlugin(user.exec, clock=clock)
    return StaticCredentials(
        token=user.token,
        username=user.username,
        password=user.password,
        certificate=user.certificate,
    )
