"""A whole API server with its listener, started and stopped as one."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kubewright.local.apiserver.aggregation import serve_api_services
from kubewright.local.apiserver.authentication import ADMIN, Authenticator
from kubewright.local.apiserver.bootstrap import (
    ensure_config_map,
    ensure_first_objects,
    ensure_roles,
)
from kubewright.local.apiserver.certificates import Certificates, ensure_certificates
from kubewright.local.apiserver.crd.controller import serve_definitions
from kubewright.local.apiserver.exchange import User
from kubewright.local.apiserver.front_proxy import build_identity_map, ensure_front_proxy
from kubewright.local.apiserver.kubeconfig import build_kubeconfig, write_kubeconfig
from kubewright.local.apiserver.node_proxy import HTTPNodeProxy
from kubewright.local.apiserver.rbac import RBACAuthorizer
from kubewright.local.apiserver.rbac_escalation import EscalationCheck
from kubewright.local.apiserver.server import APIServer
from kubewright.local.apiserver.tokens import ObjectLookup, TokenIssuer
from kubewright.local.store import VersionedStore, WriteAheadLog

if TYPE_CHECKING:
    from kubewright.local.apiserver.listener import Listener
    from kubewright.local.apiserver.memory import MemoryTransport

RBAC = "RBAC"


class ServerOptions(msgspec.Struct, frozen=True):
    """How to run a server.

    Without a `folder` certificates live in a temporary one and objects only in memory; with one,
    `persistent` keeps the objects in a write-ahead file there, and `fsync` has each write wait for
    the disk. Without `listening` there is no port: only `client_transport` reaches the server.
    `authorization` is `RBAC`, or `AlwaysAllow` for everybody who is known.
    """

    folder: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    listening: bool = True
    authorization: str = RBAC
    persistent: bool = False
    fsync: bool = False


class RunningServer:
    """An API server that answers."""

    def __init__(
        self,
        server: APIServer,
        listener: Listener | None,
        certificates: Certificates | None,
        token: str,
    ) -> None:
        self.server = server
        self.token = token
        self._listener = listener
        self._certificates = certificates

    @property
    def url(self) -> str:
        """Where the server listens.

        Raises:
            RuntimeError: it does not listen.
        """
        if self._listener is None:
            raise RuntimeError("the server has no port: start it with listening=True")
        return self._listener.url

    @property
    def ca(self) -> str:
        """The certificate authority as PEM text; empty where the server does not listen."""
        return self._certificates.ca.decode() if self._certificates else ""

    def kubeconfig(self, path: Path) -> Path:
        """Write the administrator's kubeconfig and return its path."""
        write_kubeconfig(path, build_kubeconfig(self.url, self.ca, self.token))
        return path

    def client_transport(self, user: User = ADMIN) -> MemoryTransport:
        """Return a transport for a `Client` in this process."""
        return self.server.transport(user)


@asynccontextmanager
async def serve(
    options: ServerOptions | None = None, *, store: VersionedStore | None = None
) -> AsyncIterator[RunningServer]:
    """Run an API server while the context lasts.

    It is ready when the context is entered: the first namespaces are there. What comes from
    outside is refused before.

    Raises:
        OSError: the port is taken.
        LogCorrupted: the write-ahead file is damaged.
    """
    options = options or ServerOptions()
    with tempfile.TemporaryDirectory(prefix="kubewright-") as temporary:
        folder = options.folder or Path(temporary)
        certificates = None
        token = secrets.token_hex(24)
        if options.listening:
            addresses = dict.fromkeys(["127.0.0.1", "10.96.0.1", options.host])
            certificates = ensure_certificates(folder, list(addresses), datetime.now(UTC))
            token = certificates.token
        server = _build_server(store or _open_store(options), options, certificates, token)
        try:
            await ensure_first_objects(server)
            if certificates is not None:
                front = ensure_front_proxy(certificates.folder, datetime.now(UTC))
                await ensure_config_map(server, build_identity_map(certificates.ca, front))
            if options.authorization == RBAC:
                await ensure_roles(server)
            async with (
                serve_definitions(server),
                serve_api_services(server.backend, server.aggregator),
                _listen(server, options, certificates) as listener,
            ):
                server.ready = True
                yield RunningServer(server, listener, certificates, token)
        finally:
            await server.close()


def _build_server(
    store: VersionedStore,
    options: ServerOptions,
    certificates: Certificates | None,
    token: str,
) -> APIServer:
    authorizer = RBACAuthorizer(store) if options.authorization == RBAC else None
    plugins = [EscalationCheck(authorizer)] if authorizer else []
    if certificates is None:
        return APIServer(
            store,
            authenticator=Authenticator({token: ADMIN}),
            authorizer=authorizer,
            plugins=plugins,
        )
    issuer = TokenIssuer(
        certificates.path("sa.key"), lambda: datetime.now(UTC), ObjectLookup(store)
    )
    nodes = HTTPNodeProxy(
        certificates.path("kubelet-client.crt"), certificates.path("kubelet-client.key")
    )
    front = ensure_front_proxy(certificates.folder, datetime.now(UTC))
    return APIServer(
        store,
        front_proxy=front,
        authenticator=Authenticator({token: ADMIN}, issuer.verify),
        authorizer=authorizer,
        plugins=plugins,
        issuer=issuer,
        nodes=nodes,
    )


def _open_store(options: ServerOptions) -> VersionedStore:
    if not options.persistent or options.folder is None:
        return VersionedStore()
    log = WriteAheadLog(options.folder / "objects.wal", fsync=options.fsync)
    return VersionedStore(log=log)


@asynccontextmanager
async def _listen(
    server: APIServer, options: ServerOptions, certificates: Certificates | None
) -> AsyncIterator[Listener | None]:
    if certificates is None:
        yield None
        return
    from kubewright.local.apiserver.listener import Listener

    tls = certificates.tls_context()
    listener = Listener(server, host=options.host, port=options.port, tls=tls)
    await listener.start()
    try:
        yield listener
    finally:
        server.backend.hub.close()
        await listener.stop()
