"""A client's transport straight into an API server of the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import unquote

from kubewright.api.errors import NotImplementedByServer
from kubewright.client.transport import NO_HEADERS, Query, Stream
from kubewright.client.transport import Response as ClientResponse
from kubewright.local.apiserver.authentication import ADMIN
from kubewright.local.apiserver.exchange import (
    Request,
    Response,
    StreamResponse,
    User,
)
from kubewright.local.apiserver.server import APIServer
from kubewright.local.apiserver.upgrade import UpgradeResponse


class MemoryTransport:
    """Carries requests without a network: no sockets, no TLS, the same bytes.

    All requests come from one user. Closing it leaves the server as it is.
    """

    def __init__(self, server: APIServer, user: User = ADMIN) -> None:
        self._server = server
        self._user = user

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> ClientResponse:
        """Send a request and wait for the whole answer."""
        answer = await self._send(method, path, query, headers, body)
        if isinstance(answer, Response):
            return ClientResponse(answer.status, _headers(answer), answer.body)
        try:
            data = b"".join([chunk async for chunk in answer.chunks])
        finally:
            await _close(answer)
        return ClientResponse(answer.status, _headers(answer), data)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AsyncIterator[Stream]:
        """Send a request whose answer is read while it comes; leaving the context abandons it."""
        answer = await self._send(method, path, query, headers, body)
        if isinstance(answer, Response):
            yield Stream(answer.status, _headers(answer), _once(answer.body))
            return
        try:
            yield Stream(answer.status, _headers(answer), answer.chunks)
        finally:
            await _close(answer)

    async def close(self) -> None:
        """End this client; the server goes on."""

    async def _send(
        self, method: str, path: str, query: Query, headers: Mapping[str, str], body: bytes
    ) -> Response | StreamResponse:
        parameters: dict[str, list[str]] = {}
        for name, value in query:
            parameters.setdefault(name, []).append(value)
        request = Request(
            method=method,
            path=unquote(path),
            query=parameters,
            headers={name.lower(): [value] for name, value in headers.items()},
            body=body,
        )
        answer = await self._server.handle(request, self._user)
        if isinstance(answer, UpgradeResponse):
            await answer.upstream.close()
            raise NotImplementedByServer(
                f"{request.path}: a transport in memory carries no upgraded connection", None
            )
        return answer


def _headers(answer: Response | StreamResponse) -> dict[str, str]:
    headers = {"Content-Type": answer.content_type}
    for name, value in answer.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _close(answer: StreamResponse) -> None:
    close = getattr(answer.chunks, "aclose", None)
    if close is not None:
        await close()
