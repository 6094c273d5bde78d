"""Count requests to the API server, as client-go does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from prometheus_client import Counter

from kubewright.api.errors import TransportError
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, Transport

_NO_ANSWER = "<error>"
"""client-go's code of a request without an answer."""


class MeasuredTransport:
    """Pass requests on; count each by the code of its answer. A watch counts when it opens."""

    def __init__(self, inner: Transport, host: str, requests: Counter) -> None:
        self._inner = inner
        self._host = host
        self._requests = requests

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        """Send a request and count its answer."""
        try:
            response = await self._inner.request(
                method, path, query=query, headers=headers, body=body
            )
        except TransportError:
            self._count(_NO_ANSWER, method)
            raise
        self._count(str(response.status), method)
        return response

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a stream and count its answer."""
        opening = self._inner.stream(method, path, query=query, headers=headers, body=body)
        return self._open(method, opening)

    async def close(self) -> None:
        """End all connections."""
        await self._inner.close()

    @asynccontextmanager
    async def _open(
        self, method: str, opening: AbstractAsyncContextManager[Stream]
    ) -> AsyncIterator[Stream]:
        answered = False
        try:
            async with opening as stream:
                answered = True
                self._count(str(stream.status), method)
                yield stream
        except TransportError:
            if not answered:
                self._count(_NO_ANSWER, method)
            raise

    def _count(self, code: str, method: str) -> None:
        self._requests.labels(code, method, self._host).inc()
