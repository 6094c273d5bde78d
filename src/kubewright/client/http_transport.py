"""The transport over HTTP/1.1 and TLS: credentials, and connections that are kept."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from urllib.parse import quote, urlencode

from kubewright.api.errors import ConfigurationError, TransportError
from kubewright.client.connector import Connector
from kubewright.client.credentials import Credential, Credentials, Impersonation, StaticCredentials
from kubewright.client.http_connection import ConnectionLost, HTTPConnection
from kubewright.client.tls import ClientCertificate, TLSConfig, build_ssl_context
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, before_send

REQUEST_TIMEOUT_SECONDS = 70.0

_UNAUTHORIZED = 401
# API servers close idle connections after a minute and more; one that is closed while a write is on
# its way leaves in doubt whether the write happened.
_IDLE_SECONDS = 30.0


class HTTPTransport:
    """Send requests to one API server.

    Connections are kept and not limited in number: each watch occupies one. A request takes at most
    `request_timeout` seconds (API servers end theirs after 60), a stream any time. After a 401 the
    credentials are renewed and the request is sent once more, since the server did not act on it. A
    GET is sent once more where a kept connection turns out to be closed.

    Answers are not compressed: between an operator and its API server, bytes cost less than
    processor time. Use it from one event loop; it connects at the first request.

    Arguments:
        server: the URL of the API server; a path in it goes before every other.
        tls: what to trust, and the client's certificate; files are read again when they change.
        credentials: what each request is signed with, and how that is renewed.
        impersonation: whom to act as.
        proxy: the URL of an HTTP proxy.
        request_timeout: seconds.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: TLSConfig | None = None,
        credentials: Credentials | None = None,
        impersonation: Impersonation | None = None,
        proxy: str | None = None,
        request_timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self._tls = tls or TLSConfig()
        self._connector = Connector(
            server.rstrip("/"), server_name=self._tls.server_name, proxy=proxy
        )
        self._prefix = self._connector.target_prefix + _path_of(server)
        self._credentials = credentials or StaticCredentials()
        self._constant = [("Host", self._connector.host), *self._connector.headers.items()]
        if impersonation is not None:
            self._constant += build_impersonation(impersonation)
        self._had_credentials = False
        self._request_timeout = request_timeout
        self._idle: dict[ClientCertificate | None, list[HTTPConnection]] = {}
        self._busy: set[HTTPConnection] = set()
        self._contexts: dict[ClientCertificate | None, ssl.SSLContext] = {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        """Send a request and wait for the whole answer.

        Raises:
            TransportError: no whole answer came; the server may have acted all the same.
        """
        connection: HTTPConnection | None = None
        try:
            async with asyncio.timeout(self._request_timeout):
                connection, certificate = await self._open(method, path, query, headers, body)
                content = await connection.read_body()
        except TimeoutError as error:
            raise TransportError(f"{method} {path}: no answer in time") from error
        except TransportError as error:
            raise TransportError(f"{method} {path}: {error}") from error
        finally:
            if connection is not None:
                self._release(connection, certificate)
        return Response(connection.status, connection.headers, content)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AsyncGenerator[Stream]:
        """Send a request whose answer is read while it comes; leaving the context abandons it.

        Raises:
            TransportError: no answer came; or later, from its chunks, it broke off.
        """
        try:
            connection, certificate = await self._open(method, path, query, headers, body)
        except TransportError as error:
            raise TransportError(f"{method} {path}: {error}") from error
        chunks = _name_failures(connection, method, path)
        try:
            yield Stream(connection.status, connection.headers, chunks)
        finally:
            # A watch left early has more to say: its connection is closed, not kept.
            self._release(connection, certificate)

    async def close(self) -> None:
        """End all connections."""
        for connection in [*self._busy, *(one for kept in self._idle.values() for one in kept)]:
            connection.close()
        self._idle.clear()
        # Transports are gone one turn of the loop after their abort.
        await asyncio.sleep(0)

    async def _open(
        self, method: str, path: str, query: Query, headers: Mapping[str, str], body: bytes
    ) -> tuple[HTTPConnection, ClientCertificate | None]:
        """Send a request and read its answer's head, with renewed credentials where refused."""
        target = self._prefix + path
        if query:
            target += f"{'&' if '?' in path else '?'}{_encode_query(tuple(query))}"
        credential = await self._current_credential()
        connection = await self._exchange(method, target, headers, body, credential)
        if connection.status == _UNAUTHORIZED:
            self._credentials.invalidate()
            renewed = await self._current_credential()
            if renewed != credential:
                self._busy.discard(connection)
                connection.close()
                credential = renewed
                connection = await self._exchange(method, target, headers, body, credential)
        return connection, credential.certificate

    async def _current_credential(self) -> Credential:
        try:
            credential = await self._credentials.current()
        except ConfigurationError as error:
            if self._had_credentials:
                # It was configured well: what it asks for a new credential is away for a while.
                raise TransportError(f"no credentials: {error}") from error
            raise
        self._had_credentials = True
        return credential

    async def _exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        credential: Credential,
    ) -> HTTPConnection:
        fields = [*self._constant, *headers.items(), *credential.headers.items()]
        request = build_request(method, target, fields, body)
        kept = self._take_idle(credential.certificate)
        if kept is not None:
            try:
                return await self._ask(kept, request)
            except ConnectionLost as lost:
                if not lost.unanswered or method != "GET":
                    raise
        context = None
        if self._connector.is_secure:
            context = await self._ssl_context(credential.certificate)
        try:
            opened = await self._connector.connect(context)
        except TransportError as error:
            if isinstance(error.__cause__, ssl.SSLError):
                # Its authority or our certificate may have been replaced since they were read.
                await self._read_certificates_again()
            raise
        return await self._ask(opened, request)

    async def _read_certificates_again(self) -> None:
        self._tls = await asyncio.to_thread(self._tls.read_again)
        self._contexts.clear()
        self._credentials.invalidate()

    async def _ask(self, connection: HTTPConnection, request: bytes) -> HTTPConnection:
        self._busy.add(connection)
        try:
            guard = before_send.get()
            if guard is not None:
                guard()
            connection.send(request)
            await connection.read_head()
        except BaseException:
            self._busy.discard(connection)
            connection.close()
            raise
        return connection

    def _take_idle(self, certificate: ClientCertificate | None) -> HTTPConnection | None:
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        idle = self._idle.get(certificate)
        while idle:
            connection = idle.pop()
            if connection.is_reusable and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    def _release(self, connection: HTTPConnection, certificate: ClientCertificate | None) -> None:
        self._busy.discard(connection)
        if not connection.is_reusable:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.setdefault(certificate, []).append(connection)

    async def _ssl_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        if certificate not in self._contexts:
            # Loading the system's authorities takes tens of milliseconds and reads files.
            context = await asyncio.to_thread(build_ssl_context, self._tls, certificate)
            if certificate not in self._contexts:
                # Only the newest is kept: an old certificate is not used again.
                self._contexts = {certificate: context}
                for old in self._idle.keys() - self._contexts.keys():
                    for connection in self._idle.pop(old):
                        connection.close()
        return self._contexts[certificate]


def build_request(
    method: str, target: str, fields: list[tuple[str, str]], body: bytes = b""
) -> bytes:
    """Build the bytes of a request.

    Raises:
        ValueError: a header or the target holds a line break, by which it could say anything.
    """
    lines = [f"{method} {target} HTTP/1.1", *[f"{name}: {value}" for name, value in fields]]
    if body or method not in ("GET", "HEAD", "DELETE"):
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError(f"{method} {target!r}: a header or the path holds a line break")
    return b"%b\r\n\r\n%b" % (head.encode("latin-1"), body)


def build_impersonation(impersonation: Impersonation) -> list[tuple[str, str]]:
    """Build the headers by which a user acts as another (user impersonation)."""
    headers = [("Impersonate-User", impersonation.user)]
    if impersonation.uid:
        headers.append(("Impersonate-Uid", impersonation.uid))
    headers += [("Impersonate-Group", group) for group in impersonation.groups]
    for key, values in impersonation.extra.items():
        headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    return headers


async def _name_failures(
    connection: HTTPConnection, method: str, path: str
) -> AsyncGenerator[bytes]:
    try:
        async for chunk in connection.chunks():
            yield chunk
    except TransportError as error:
        raise TransportError(f"{method} {path}: {error}") from error


def _path_of(server: str) -> str:
    """Return the path under which a server serves its API, as Rancher's proxies do."""
    return quote("/".join(server.rstrip("/").split("/")[3:]).join(("/", "")).rstrip("/"), safe="/%")


@lru_cache(maxsize=256)
def _encode_query(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query, safe=",()/")
