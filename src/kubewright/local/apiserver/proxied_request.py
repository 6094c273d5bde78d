"""Requests that go on to something else than this API server, and its answers on their way back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kubewright.api.errors import ServiceUnavailable
from kubewright.local.apiserver.exchange import Request, StreamResponse

if TYPE_CHECKING:
    import ssl

    import aiohttp

# What concerns one connection alone (RFC 9110, 7.6.1), what is computed anew, and whoever asks.
_NOT_PASSED = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "accept-encoding",
        "authorization",
    ]
)
_NOT_RETURNED = _NOT_PASSED | {"content-type", "content-encoding", "cache-control"}


class ProxiedBody(msgspec.Struct, frozen=True):
    """What of a request goes on besides its URL."""

    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""

    @classmethod
    def of(cls, request: Request) -> ProxiedBody:
        """Take it from a request; credentials for this server are left out."""
        headers = [
            (name, value)
            for name, values in request.headers.items()
            if name not in _NOT_PASSED and not name.startswith("impersonate-")
            for value in values
        ]
        return cls(headers, request.body)


async def send_on(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    query: Iterable[tuple[str, str]],
    body: ProxiedBody,
    *,
    context: ssl.SSLContext | None = None,
    server_name: str | None = None,
) -> StreamResponse:
    """Send a request and return whatever is answered, as it comes.

    `context` says whom to trust, `server_name` whose certificate to expect; by default the
    session's connector decides.

    Raises:
        ServiceUnavailable: nobody answers.
    """
    import aiohttp

    try:
        response = await session.request(
            method,
            url,
            params=list(query),
            headers=list(body.headers),
            data=body.body or None,
            allow_redirects=False,
            ssl=context if context is not None else True,
            server_hostname=server_name,
        )
    except (aiohttp.ClientError, OSError) as error:
        raise ServiceUnavailable(f"error trying to reach service: {error}") from error
    headers = [pair for pair in response.headers.items() if pair[0].lower() not in _NOT_RETURNED]
    kind = response.headers.get("Content-Type", "")
    return StreamResponse(response.status, _read(response), kind, headers)


async def _read(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()
