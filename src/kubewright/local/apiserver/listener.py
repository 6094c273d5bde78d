"""The HTTPS listener: aiohttp's low-level server in front of `APIServer.handle`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import zlib
from typing import Any

# Not aiohttp.web: applications, routes and files, which nothing here uses, are a fifth of aiohttp.
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response as HTTPResponse
from aiohttp.web_response import StreamResponse as HTTPStreamResponse
from aiohttp.web_server import Server

from kubewright.local.apiserver.bodies import MAX_BODY
from kubewright.local.apiserver.exchange import (
    Request,
    Response,
    StreamResponse,
    collect_headers,
    parse_query,
)
from kubewright.local.apiserver.server import APIServer
from kubewright.local.apiserver.upgrade import SPDY, UpgradeResponse
from kubewright.local.relay import relay

_MAX_LINE = 65536
_COMPRESS_FROM = 128 * 1024
# The level of kube-apiserver: on the loopback interface, CPU is dearer than bytes.
_COMPRESS_LEVEL = 1
_GZIP = 31  # zlib's window bits, with gzip's frame around
_CLOSE_SECONDS = 2.0


class Listener:
    """Takes requests from the network for an API server, on the loopback interface by default."""

    def __init__(
        self,
        server: APIServer,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._server = server
        self._host = host
        self._port = port
        self._tls = tls
        self._web: Server | None = None
        self._listening: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where the server is reached."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self._port}"

    async def start(self) -> None:
        """Begin to listen; port 0 becomes a free one.

        Raises:
            OSError: the port is taken.
        """
        self._web = Server(
            self._handle,
            access_log=None,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            keepalive_timeout=120,
            # Or the watch of a client that went away would wait for the next event to notice.
            handler_cancellation=True,
        )
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            self._web, self._host, self._port, ssl=self._tls, backlog=512
        )
        self._port = self._listening.sockets[0].getsockname()[1]
        self._server.address = f"{self._host}:{self._port}"

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._listening:
            self._listening.close()
        if self._web:
            await self._web.shutdown(_CLOSE_SECONDS)
        self._web = self._listening = None

    async def _handle(self, http: BaseRequest) -> HTTPStreamResponse:
        request = await _read(http)
        answer = await self._server.handle(request)
        if isinstance(answer, Response):
            return await _whole(request, answer)
        if isinstance(answer, UpgradeResponse):
            if answer.upgrade == SPDY:
                return await _relay_spdy(http, answer)
            return await _upgrade(http, answer)
        return await _stream(http, answer)


async def _read(http: BaseRequest) -> Request:
    url = http.rel_url
    request = Request(
        method=http.method,
        path=url.path,
        query=parse_query(url.raw_query_string),
        headers=collect_headers(http.headers.items()),
    )
    if http.can_read_body:
        request.body = await _read_body(http)
    if http.transport is not None:
        _read_certificate(http.transport, request)
    return request


async def _read_body(http: BaseRequest) -> bytes:
    """Read the body, and not much more of one that is too large than tells that it is."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in http.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            return b"\0" * (MAX_BODY + 1)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _read_certificate(transport: asyncio.Transport, request: Request) -> None:
    certificate: dict[str, Any] | None = transport.get_extra_info("peercert")
    if not certificate:
        return
    names = [pair for group in certificate.get("subject", ()) for pair in group]
    request.common_name = next((v for k, v in names if k == "commonName"), "")
    request.organizations = tuple(v for k, v in names if k == "organizationName")


async def _whole(request: Request, answer: Response) -> HTTPResponse:
    body = answer.body
    # As kube-apiserver: small answers are not worth the CPU.
    packs = len(body) >= _COMPRESS_FROM and "gzip" in request.header("accept-encoding")
    if packs:
        body = await asyncio.to_thread(zlib.compress, body, _COMPRESS_LEVEL, _GZIP)
    response = HTTPResponse(status=answer.status, body=body)
    headers = response.headers
    if packs:
        headers["Content-Encoding"] = "gzip"
        headers["Vary"] = "Accept-Encoding"
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    headers["Cache-Control"] = "no-cache, private"
    for name, value in answer.headers:
        headers.add(name, value)
    return response


async def _stream(http: BaseRequest, answer: StreamResponse) -> HTTPStreamResponse:
    response = HTTPStreamResponse(status=answer.status)
    response.headers["Content-Type"] = answer.content_type
    response.headers["Cache-Control"] = "no-cache, private"
    for name, value in answer.headers:
        response.headers.add(name, value)
    response.enable_chunked_encoding()
    chunks = answer.chunks
    try:
        await response.prepare(http)
        # A client that went away ends the stream; it is no fault of the server.
        with contextlib.suppress(ConnectionError):
            async for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    return response


async def _upgrade(http: BaseRequest, answer: UpgradeResponse) -> HTTPStreamResponse:
    # Few servers are ever asked for it, and a start should not pay for it.
    from aiohttp.web_ws import WebSocketResponse

    from kubewright.local.apiserver.web_socket import MAX_MESSAGE, WebSocket

    response = WebSocketResponse(
        protocols=[answer.protocol], max_msg_size=MAX_MESSAGE, compress=False
    )
    try:
        await response.prepare(http)
        await relay(WebSocket(response), answer.upstream)
    finally:
        await answer.upstream.close()
    return response


async def _relay_spdy(http: BaseRequest, answer: UpgradeResponse) -> HTTPStreamResponse:
    from kubewright.local.upgraded_connection import UpgradedResponse, take_over

    headers = {
        "Connection": "Upgrade",
        "Upgrade": SPDY,
        "X-Stream-Protocol-Version": answer.protocol,
    }
    try:
        async with take_over(http, headers) as client:
            await relay(client, answer.upstream)
    finally:
        await answer.upstream.close()
    return UpgradedResponse()
