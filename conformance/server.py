"""The API server that cases are run against."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.tls import build_ssl_context

CLOSED = "<closed>"
"""Stands among the events of a watch where the server ended it."""

_REQUEST_SECONDS = 30.0
_LONGEST_LINE = 1 << 16
# A header that the case does not name is not sent: the server must see what was recorded.
_UNSENT = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

Headers = Sequence[tuple[str, str]]


class Answer(msgspec.Struct, frozen=True):
    """What a server answered; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, list[str]]
    body: bytes

    def document(self, *, is_json: bool = False) -> Any:
        """Return the body: decoded where it says that it is JSON, otherwise as text.

        With `is_json`, an object is decoded whatever it says: kube-apiserver calls the OpenAPI
        index plain text.
        """
        media_type = "".join(self.headers.get("content-type", []))
        if media_type.startswith("application/json") or (is_json and self.body[:1] == b"{"):
            return json.loads(self.body) if self.body else ""
        return self.body.decode(errors="replace")


class Watched(msgspec.Struct, frozen=True):
    """What a watch showed: events, or the body of a refusal."""

    status: int
    headers: Mapping[str, list[str]]
    body: Any


class Server:
    """An API server as one user reaches it. Paths are sent byte for byte as they are given."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")

    async def ask(
        self, method: str, path: str, headers: Headers = (), body: bytes | None = None
    ) -> Answer:
        """Send a request and return the answer, whatever its status.

        Raises:
            aiohttp.ClientError: the server could not be reached or broke the connection.
            TimeoutError: there was no answer in half a minute.
        """
        async with self._send(method, path, headers, body, _REQUEST_SECONDS) as response:
            return Answer(response.status, _headers_of(response), await response.read())

    async def watch(self, path: str, headers: Headers, count: int, seconds: float) -> Watched:
        """Watch until so many events have come, or so many seconds have passed."""
        async with self._send("GET", path, headers, None, seconds) as response:
            status, got = response.status, _headers_of(response)
            if status != 200:
                return Watched(status, got, json.loads(await response.read()))
            events: list[Any] = []
            try:
                async with asyncio.timeout(seconds):
                    await _read_events(response, events, count)
            except TimeoutError:
                pass  # a watch that stays silent is one of the things to compare
            return Watched(status, got, events)

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, headers: Headers, body: bytes | None, seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.request(
            method,
            URL(self._url + path, encoded=True),
            headers=list(headers),
            data=body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds),
        ) as response:
            yield response


@asynccontextmanager
async def open_server(kubeconfig: Path) -> AsyncIterator[Server]:
    """Lend the server of a kubeconfig's current context.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    config = KubeConfig.load(kubeconfig)
    user = config.user
    certificate = user.certificate_files.read() if user.certificate_files else user.certificate
    # A connection for each request, as when the recordings were made: what kube-apiserver does
    # after an answer (caches, the webhooks that fill them) has then begun before the next request.
    tls = build_ssl_context(config.tls, certificate)
    connector = aiohttp.TCPConnector(limit=0, force_close=True, ssl=tls)
    async with aiohttp.ClientSession(
        connector=connector,
        headers={"Authorization": f"Bearer {user.token}"} if user.token else {},
        skip_auto_headers=_UNSENT,
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
    ) as session:
        yield Server(session, config.server)


async def _read_events(response: aiohttp.ClientResponse, events: list[Any], count: int) -> None:
    buffer = b""
    async for chunk in response.content.iter_any():
        *lines, buffer = (buffer + chunk).split(b"\n")
        events += [json.loads(line) for line in lines if line.strip()][: count - len(events)]
        if len(events) >= count:
            return
    events.append(CLOSED)


def _headers_of(response: aiohttp.ClientResponse) -> dict[str, list[str]]:
    """Return the headers as bytes were sent: latin-1, which recordings are written in."""
    headers: dict[str, list[str]] = {}
    for name, value in response.raw_headers:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers
