"""What the API server asks of nodes: the kubelet's own API."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from kubewright.api.errors import APIError, InternalError
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import StreamResponse
from kubewright.local.apiserver.proxied_request import ProxiedBody, send_on
from kubewright.local.relay import MessageSocket

if TYPE_CHECKING:
    import aiohttp

    from kubewright.local.upgraded_connection import ByteStream

Pairs: TypeAlias = Sequence[tuple[str, str]]
REFUSAL_HEADER = "Kubewright-Refusal"
_CONNECT_SECONDS = 5.0


class NodeAddress(msgspec.Struct, frozen=True):
    """Where a node's kubelet API is."""

    name: str
    host: str
    port: int

    @classmethod
    def of(cls, node: Object) -> NodeAddress | None:
        """Read the address from a Node; None where its status tells none."""
        status = node.get("status") or {}
        endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        hosts = {a["type"]: a["address"] for a in status.get("addresses") or ()}
        host = hosts.get("InternalIP") or hosts.get("Hostname")
        port = endpoint.get("Port")
        return cls(node["metadata"]["name"], host, port) if host and port else None


class NodeProxy(Protocol):
    """Fetches from nodes. What goes wrong raises an APIError."""

    async def get(
        self, address: NodeAddress, path: str, query: Sequence[tuple[str, str]]
    ) -> StreamResponse:
        """Start a GET on the node and return its answer as it comes."""
        ...

    async def connect(
        self, address: NodeAddress, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> MessageSocket:
        """Open a WebSocket to the node that speaks a sub-protocol."""
        ...

    async def upgrade(
        self, address: NodeAddress, path: str, query: Pairs, headers: Pairs
    ) -> tuple[ByteStream, dict[str, str]]:
        """Upgrade a connection to the node, to what `headers` name; return it and the answer's."""
        ...

    async def send(
        self, address: NodeAddress, method: str, path: str, query: Pairs, body: ProxiedBody
    ) -> StreamResponse:
        """Send a request and return whatever the node answers, as it comes."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


class HTTPNodeProxy:
    """Asks nodes over HTTPS, with the API server's own client certificate.

    Like a kube-apiserver without `--kubelet-certificate-authority`, it does not verify the node's
    certificate: nodes sign their own.
    """

    def __init__(self, certificate: Path | None = None, key: Path | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, address: NodeAddress, path: str, query: Sequence[tuple[str, str]]
    ) -> StreamResponse:
        """Start a GET on the node and return its answer as it comes.

        Raises:
            InternalError: the node cannot be reached.
            APIError: it refuses.
        """
        import aiohttp

        session = self._open()
        url = f"https://{address.host}:{address.port}{path}"
        try:
            response = await session.get(url, params=list(query))
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f'Get "{url}": {error}'
            raise InternalError(f"Internal error occurred: {text}") from error
        if response.status >= 400:
            text = (await response.text()).strip()
            raise APIError(text, None, response.status, _REASONS.get(response.status, ""))
        return StreamResponse(200, _chunks(response), "text/plain")

    async def connect(
        self, address: NodeAddress, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> MessageSocket:
        """Open a WebSocket to the node that speaks a sub-protocol; "" names none.

        Raises:
            InternalError: the node cannot be reached.
            APIError: it refuses the upgrade.
        """
        import aiohttp

        from kubewright.local.apiserver.web_socket import MAX_MESSAGE, WebSocket

        url = f"https://{address.host}:{address.port}{path}"
        try:
            socket = await self._open().ws_connect(
                url,
                params=list(query),
                protocols=[protocol] if protocol else [],
                max_msg_size=MAX_MESSAGE,
            )
        except aiohttp.WSServerHandshakeError as error:
            text = f"unable to upgrade connection: {_refusal(error)}"
            raise APIError(text, None, error.status, _REASONS.get(error.status, "")) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f"error dialing backend: {error}"
            raise InternalError(f"Internal error occurred: {text}") from error
        return WebSocket(socket)

    async def upgrade(
        self, address: NodeAddress, path: str, query: Pairs, headers: Pairs
    ) -> tuple[ByteStream, dict[str, str]]:
        """Upgrade a connection to the node, to what `headers` name; return it and the answer's.

        Raises:
            InternalError: the node cannot be reached.
            APIError: it refuses the upgrade.
        """
        from kubewright.local.apiserver.upgrade_dialer import UpgradeRefused, dial_upgrade

        host, port, context = address.host, address.port, self._build_context()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await dial_upgrade(host, port, context, path, query, headers)
        except UpgradeRefused as error:
            text = f"unable to upgrade connection: {error.text}"
            raise APIError(text, None, error.status, _REASONS.get(error.status, "")) from error
        except (OSError, TimeoutError) as error:
            text = f"error dialing backend: {error}"
            raise InternalError(f"Internal error occurred: {text}") from error

    async def send(
        self, address: NodeAddress, method: str, path: str, query: Pairs, body: ProxiedBody
    ) -> StreamResponse:
        """Send a request and return whatever the node answers, as it comes.

        Raises:
            ServiceUnavailable: the node cannot be reached.
        """
        url = f"https://{address.host}:{address.port}{path}"
        return await send_on(self._open(), method, url, query, body)

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
            connector = aiohttp.TCPConnector(ssl=self._build_context(), limit=0)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self._session

    def _build_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self._certificate and self._key:
            context.load_cert_chain(self._certificate, self._key)
        return context


def _refusal(error: aiohttp.WSServerHandshakeError) -> str:
    """Return why a node refuses: in a header, for a client is not shown the body."""
    headers = error.headers
    return headers.get(REFUSAL_HEADER, "") if headers else error.message


_REASONS = {400: "BadRequest", 404: "NotFound", 401: "Unauthorized", 403: "Forbidden"}


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()
