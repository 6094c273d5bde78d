"""The narrow seam between the client and whatever carries its requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Protocol, TypeAlias

import msgspec

Query: TypeAlias = Sequence[tuple[str, str]]
"""Query parameters in order, not yet percent-encoded."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def find_header(headers: Mapping[str, str], name: str) -> str:
    """Return a header whatever the case of its name; empty where it is missing."""
    found = headers.get(name)
    if found is not None:
        return found
    wanted = name.lower()
    return next((value for key, value in headers.items() if key.lower() == wanted), "")


class Response(msgspec.Struct, frozen=True):
    """A whole answer; any status is an answer, also 500."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def header(self, name: str) -> str:
        """Return a header whatever the case of its name; empty where it is missing."""
        return find_header(self.headers, name)


class Stream(msgspec.Struct, frozen=True):
    """An answer whose body comes piece by piece; pieces end anywhere, also inside a character.

    `chunks` ends where the server closed the answer properly, and raises TransportError where the
    connection broke. With an error status the chunks are the error's body.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    def header(self, name: str) -> str:
        """Return a header whatever the case of its name; empty where it is missing."""
        return find_header(self.headers, name)


before_send: ContextVar[Callable[[], None] | None] = ContextVar("before_send", default=None)
"""Called right before a request is written, when nothing is waited for any more; may refuse it."""


class Transport(Protocol):
    """Carry requests to one API server and bring its answers.

    `path` is absolute and percent-encoded (`/api/v1/pods`); `query` is not encoded yet. The
    transport adds credentials; it interprets no status and repeats no write.

    Raises:
        TransportError: no answer came, or it broke off.
    """

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
        ...

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        """Send a request whose answer is read while it comes; leaving the context abandons it."""
        ...

    async def close(self) -> None:
        """End all connections; no request may follow."""
        ...


class PassingTransport:
    """Pass requests on to another transport; a wrapper inherits what it does not change."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

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
        return await self._inner.request(method, path, query=query, headers=headers, body=body)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        """Send a request whose answer is read while it comes; leaving the context abandons it."""
        return self._inner.stream(method, path, query=query, headers=headers, body=body)

    async def close(self) -> None:
        """End all connections."""
        await self._inner.close()
