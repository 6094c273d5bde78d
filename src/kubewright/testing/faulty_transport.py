"""A transport with faults on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from kubewright.client.transport import (
    NO_HEADERS,
    PassingTransport,
    Query,
    Response,
    Stream,
    Transport,
)
from kubewright.testing.call import Call
from kubewright.testing.faults import Faults


class FaultyTransport(PassingTransport):
    """Pass requests to another transport, as far as the faults let them.

        faults = Faults()
        client = Client(FaultyTransport(client.transport, faults))
        faults.fail("PATCH", "deployments", nth=3, code=409)

    Several transports may share one `Faults`: they then fail together. Closing it leaves the inner
    transport open, which belongs to somebody else.
    """

    def __init__(self, inner: Transport, faults: Faults) -> None:
        super().__init__(inner)
        self._faults = faults

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
        call = Call.of(method, path, query, headers)
        async with self._faults.passage(call) as refusal:
            if refusal is not None:
                response = refusal.to_response()
            else:
                response = await self._inner.request(
                    method, path, query=query, headers=headers, body=body
                )
        call.status = response.status
        return response

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
        call = Call.of(method, path, query, headers)
        async with AsyncExitStack() as stack:
            async with self._faults.passage(call) as refusal:
                if refusal is not None:
                    stream = _build_stream(refusal.to_response())
                else:
                    stream = await stack.enter_async_context(
                        self._inner.stream(method, path, query=query, headers=headers, body=body)
                    )
            call.status = stream.status
            copy = stack.enter_context(self._faults.open_stream(call))
            chunks = await stack.enter_async_context(copy.reading(stream.chunks))
            yield Stream(stream.status, stream.headers, chunks)

    async def close(self) -> None:
        """Leave the inner transport open."""


def _build_stream(response: Response) -> Stream:
    async def once() -> AsyncIterator[bytes]:
        yield response.body

    return Stream(response.status, response.headers, once())
