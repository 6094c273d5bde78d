"""A reverse proxy with faults on it, in front of an API server that any process may use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response as HTTPResponse
from aiohttp.web_response import StreamResponse as HTTPStreamResponse
from aiohttp.web_server import Server
from multidict import CIMultiDict

from kubewright.api.errors import (
    APIError,
    NotImplementedByServer,
    RequestEntityTooLarge,
    TransportError,
)
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, Transport
from kubewright.local.apiserver.kubeconfig import build_kubeconfig, write_kubeconfig
from kubewright.testing.effect import Refuse
from kubewright.testing.faults import Faults
from kubewright.testing.faulty_transport import FaultyTransport

_MAX_BODY = 8 * 1024 * 1024
_MAX_LINE = 65536
_CLOSE_SECONDS = 2.0
# Those of one connection (RFC 9110, 7.6.1), and those that each side of the proxy decides itself:
# the upstream's credentials and coding are the transport's.
_OWN_HEADERS = frozenset(
    {
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("host", "content-length", "content-encoding", "accept-encoding"),
    }
)


class FaultProxy:
    """Listen on the loopback interface and pass requests to an API server, as the faults allow.

    Any client may use it: another process, kopf, a Go program. They speak plain HTTP to it. All of
    them act as the user of `upstream`; credentials that they send are for the faults to look at.
    Watches are passed on as they come.
    A connection that a fault cuts is reset. Upgraded connections (exec, attach, port-forward) are
    refused by name.

    Clients are asked to speak JSON, so that an ERROR event can be put into any watch.
    """

    def __init__(self, upstream: Transport, faults: Faults) -> None:
        self.faults = faults
        self._transport = FaultyTransport(_AsUpstreamUser(upstream), faults)
        self._port = 0

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return f"http://127.0.0.1:{self._port}"

    def build_kubeconfig(self) -> Object:
        """Build the kubeconfig of the proxy's clients."""
        return build_kubeconfig(self.url, "", "", name="fault-proxy")

    def write_kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig of the proxy's clients and return its path."""
        write_kubeconfig(path, self.build_kubeconfig())
        return path

    def connect(self) -> Client:
        """Build a client that goes through the proxy; close it at the end."""
        return connect(KubeConfig(server=self.url))

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[FaultProxy]:
        """Listen while the block lasts; port 0 is any free one.

        Raises:
            OSError: the port is taken.
        """
        web = Server(
            self._handle,
            access_log=None,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            # Or the watch of a client that went away would go on upstream.
            handler_cancellation=True,
        )
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(web, "127.0.0.1", port, backlog=512)
        self._port = listening.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listening.close()
            await web.shutdown(_CLOSE_SECONDS)

    async def _handle(self, request: BaseRequest) -> HTTPStreamResponse:
        try:
            if "upgrade" in request.headers:
                raise NotImplementedByServer("the fault proxy passes no upgraded connection")
            if _is_stream(request):
                return await self._stream(request)
            return await self._request(request)
        except APIError as error:
            return _refuse(error)
        except TransportError:
            # A client must see what a broken network shows it: a reset, and no answer.
            if request.transport is not None:
                request.transport.abort()
            return HTTPResponse(status=502)

    async def _request(self, request: BaseRequest) -> HTTPStreamResponse:
        answer = await self._transport.request(
            request.method,
            request.rel_url.raw_path,
            query=_query_of(request),
            headers=_pass_on(request.headers),
            body=await _read_body(request),
        )
        return HTTPResponse(
            status=answer.status, body=answer.body, headers=_pass_back(answer.headers)
        )

    async def _stream(self, request: BaseRequest) -> HTTPStreamResponse:
        opening = self._transport.stream(
            request.method,
            request.rel_url.raw_path,
            query=_query_of(request),
            headers=_pass_on(request.headers),
            body=await _read_body(request),
        )
        async with opening as stream:
            response = HTTPStreamResponse(status=stream.status, headers=_pass_back(stream.headers))
            response.enable_chunked_encoding()
            await response.prepare(request)
            try:
                async for chunk in stream.chunks:
                    await response.write(chunk)
                await response.write_eof()
            except ConnectionError:
                # The client is gone; leaving the stream tells the server.
                return response
            return response


class _AsUpstreamUser:
    """Leave out the credentials that clients sent: the transport has its own."""

    def __init__(self, upstream: Transport) -> None:
        self._upstream = upstream

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        return await self._upstream.request(
            method, path, query=query, headers=_without_credentials(headers), body=body
        )

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        return self._upstream.stream(
            method, path, query=query, headers=_without_credentials(headers), body=body
        )

    async def close(self) -> None:
        await self._upstream.close()


def _without_credentials(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() != "authorization"}


def _is_stream(request: BaseRequest) -> bool:
    query = request.rel_url.query
    watches = query.get("watch", "false") not in ("false", "0", "")
    follows = query.get("follow", "false") not in ("false", "0", "")
    return request.method == "GET" and (watches or follows)


def _query_of(request: BaseRequest) -> Query:
    return list(request.rel_url.query.items())


async def _read_body(request: BaseRequest) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > _MAX_BODY:
            raise RequestEntityTooLarge(f"the body is larger than {_MAX_BODY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _pass_on(headers: Mapping[str, str]) -> dict[str, str]:
    """Choose what the server is told of the client's headers; values of one name are joined."""
    passed: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if key not in _OWN_HEADERS:
            passed[key] = f"{passed[key]}, {value}" if key in passed else value
    if "accept" in passed:
        passed["accept"] = _without_binary(passed["accept"])
    return passed


def _without_binary(accept: str) -> str:
    parts = [part.strip() for part in accept.split(",")]
    text = [part for part in parts if "protobuf" not in part and "cbor" not in part]
    return ", ".join(text) or "application/json"


def _pass_back(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict(
        [(name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS]
    )


def _refuse(error: APIError) -> HTTPStreamResponse:
    answer = Refuse(error.code, error.reason, error.message).to_response()
    return HTTPResponse(status=answer.status, body=answer.body, headers=dict(answer.headers))
