"""Open connections to one server: sockets, TLS, and the tunnel of a proxy."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from urllib.parse import SplitResult, unquote, urlsplit

from kubewright.api.errors import ConfigurationError, TransportError
from kubewright.client.http_connection import HTTPConnection

CONNECT_TIMEOUT_SECONDS = 10.0

# A load balancer that drops an idle watch says nothing; probes find the dead connection within a
# minute, on every platform that lets them be set.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_PORTS = {"http": 80, "https": 443}


class Connector:
    """Open connections to the host of a URL, directly or through an HTTP proxy.

    To an https server a proxy opens a tunnel (CONNECT, RFC 9110 section 9.3.6); requests to an http
    server are sent to the proxy itself, with `target_prefix` before their path and `headers`.
    """

    def __init__(self, server: str, *, server_name: str | None = None, proxy: str | None) -> None:
        self._url = _parse(server)
        self._proxy = None if proxy is None else _parse(proxy)
        self._server_name = server_name
        self.is_secure = self._url.scheme == "https"
        self.host = self._url.netloc.rpartition("@")[2]
        forwards = self._proxy is not None and not self.is_secure
        self.target_prefix = f"http://{self.host}" if forwards else ""
        self.headers = _authorization(self._proxy) if forwards and self._proxy else {}

    async def connect(self, context: ssl.SSLContext | None) -> HTTPConnection:
        """Open a connection; `context` is for an https server.

        Raises:
            TransportError: it cannot be opened within ten seconds; the message says why.
        """
        near = self._proxy or self._url
        host, port = near.hostname or "", near.port or _PORTS[near.scheme]
        where = f"{host}:{port}" if self._proxy is None else f"the proxy {host}:{port}"
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                if self._proxy is None:
                    return await self._open(host, port, context, self._server_name or host)
                secure = ssl.create_default_context() if near.scheme == "https" else None
                connection = await self._open(host, port, secure, host)
                if context is not None:
                    await self._tunnel(connection, context)
                return connection
        except ssl.SSLCertVerificationError as error:
            raise TransportError(
                f"the server's certificate is not trusted: {error.verify_message}"
            ) from error
        except TimeoutError as error:
            raise TransportError(f"cannot connect to {where} in time") from error
        except OSError as error:
            raise TransportError(f"cannot connect to {where}: {error}") from error

    async def _open(
        self, host: str, port: int, context: ssl.SSLContext | None, name: str
    ) -> HTTPConnection:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            HTTPConnection,
            host,
            port,
            ssl=context,
            server_hostname=name if context is not None else None,
        )
        _keep_alive(transport)
        return connection

    async def _tunnel(self, connection: HTTPConnection, context: ssl.SSLContext) -> None:
        target = f"{self._url.hostname}:{self._url.port or _PORTS['https']}"
        assert self._proxy is not None
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [f"{name}: {value}" for name, value in _authorization(self._proxy).items()]
        try:
            connection.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
            await connection.read_head()
            if connection.status != 200:
                raise TransportError(
                    f"the proxy {self._proxy.hostname} refused a tunnel: {connection.status}"
                )
            await connection.start_tls(context, self._server_name or self._url.hostname or "")
        except BaseException:
            connection.close()
            raise


def _parse(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigurationError(f"the server {url!r} is no URL: write it as https://HOST:PORT")
    return parts


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"}


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    # The options are those of the open socket, whichever descriptor they are set through; not every
    # event loop lets them be set on its own.
    own = transport.get_extra_info("socket")
    with socket.socket(fileno=os.dup(own.fileno())) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            option = getattr(socket, name, None)
            if option is not None:
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
