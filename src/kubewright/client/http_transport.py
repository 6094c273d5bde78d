"""The transport over HTTP/1.1 and TLS, on aiohttp."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubewright.api.errors import ConfigurationError, TransportError
from kubewright.client.credentials import Credential, Credentials, Impersonation, StaticCredentials
from kubewright.client.tls import ClientCertificate, TLSConfig, build_ssl_context
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream

LARGE_BODY = 1 << 20

REQUEST_TIMEOUT_SECONDS = 70.0
CONNECT_TIMEOUT_SECONDS = 10.0

_UNAUTHORIZED = 401
# A load balancer that drops an idle watch says nothing; probes find the dead connection within a
# minute, on every platform that lets them be set.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class HTTPTransport:
    """Send requests to one API server.

    Connections are kept and not limited in number: each watch occupies one. A request takes at most
    `request_timeout` seconds (API servers end theirs after 60), a stream any time. After a 401 the
    credentials are renewed and the request is sent once more, since the server did not act on it.

    Use it from one event loop; it connects at the first request.
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
        if urlsplit(server).scheme not in ("http", "https"):
            raise ConfigurationError(
                f"the server {server!r} is no URL: write it as https://HOST:PORT"
            )
        self._server = server.rstrip("/")
        self._tls = tls or TLSConfig()
        self._credentials = credentials or StaticCredentials()
        self._impersonation = build_impersonation(impersonation) if impersonation else []
        self._proxy = proxy
        self._request_timeout = request_timeout
        self._session: aiohttp.ClientSession | None = None
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
        """Send a request and wait for the whole answer."""
        timeout = aiohttp.ClientTimeout(
            total=self._request_timeout, sock_connect=CONNECT_TIMEOUT_SECONDS
        )
        async with self._send(method, path, query, headers, body, timeout) as answer:
            try:
                content = await answer.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _broken(method, path, error) from error
            return Response(answer.status, _plain(answer), content)

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
        """Send a request whose answer is read while it comes; leaving the context abandons it."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS)
        async with self._send(method, path, query, headers, body, timeout) as answer:
            try:
                yield Stream(answer.status, _plain(answer), _read_chunks(answer, method, path))
            finally:
                # A watch left early has more to say: its connection cannot be used again.
                answer.close()

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        headers: Mapping[str, str],
        body: bytes,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open an answer, with renewed credentials where the first ones are refused."""
        url = URL(self._server + path, encoded=True).extend_query(list(query))
        credential = await self._credentials.current()
        answer = await self._open(method, url, headers, body, timeout, credential)
        if answer.status == _UNAUTHORIZED:
            self._credentials.invalidate()
            renewed = await self._credentials.current()
            if renewed != credential:
                answer.release()
                answer = await self._open(method, url, headers, body, timeout, renewed)
        try:
            yield answer
        finally:
            answer.release()

    async def _open(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        timeout: aiohttp.ClientTimeout,
        credential: Credential,
    ) -> aiohttp.ClientResponse:
        sent = CIMultiDict({**headers, **credential.headers})
        for name, value in self._impersonation:
            sent.add(name, value)
        try:
            return await self._open_session().request(
                method,
                url,
                headers=sent,
                data=_payload(body),
                timeout=timeout,
                allow_redirects=False,
                ssl=await self._ssl_context(credential.certificate)
                if url.scheme == "https"
                else True,
                server_hostname=self._tls.server_name if url.scheme == "https" else None,
                proxy=self._proxy,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _broken(method, url.path, error) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, socket_factory=_open_socket),
                auto_decompress=True,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Content-Type", "User-Agent"),
            )
        return self._session

    async def _ssl_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        if certificate not in self._contexts:
            # Loading the system's authorities takes tens of milliseconds and reads files.
            context = await asyncio.to_thread(build_ssl_context, self._tls, certificate)
            if certificate not in self._contexts:
                # Only the newest is kept: an old certificate is not used again.
                self._contexts = {certificate: context}
        return self._contexts[certificate]


def build_impersonation(impersonation: Impersonation) -> list[tuple[str, str]]:
    """Build the headers by which a user acts as another (user impersonation)."""
    headers = [("Impersonate-User", impersonation.user)]
    if impersonation.uid:
        headers.append(("Impersonate-Uid", impersonation.uid))
    headers += [("Impersonate-Group", group) for group in impersonation.groups]
    for key, values in impersonation.extra.items():
        headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    return headers


async def _read_chunks(
    answer: aiohttp.ClientResponse, method: str, path: str
) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _broken(method, path, error) from error


def _plain(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """Return the headers by lower-case names; values of one name are joined as HTTP allows."""
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def _broken(method: str, path: str, error: Exception) -> TransportError:
    return TransportError(f"{method} {path}: {describe_failure(error)}")


def describe_failure(error: Exception) -> str:
    """Say what happened to a connection, without the insides of the HTTP library."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the server's certificate is not trusted: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {error.host}:{error.port}: {error.os_error}"
        case aiohttp.ClientPayloadError():
            return "the connection broke off amid the answer"
        case TimeoutError():
            return "no answer in time"
        case _:
            return str(error) or type(error).__name__


def _open_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        option = getattr(socket, name, None)
        if option is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


def _payload(body: bytes) -> bytes | BytesIO | None:
    # aiohttp sends a stream in parts, and bytes at once: a large body would block the loop.
    return BytesIO(body) if len(body) > LARGE_BODY else body or None
