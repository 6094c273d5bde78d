"""The endpoint's streams into pods (the kubelet's /exec, /attach and /portForward).

/exec/NAMESPACE/POD/CONTAINER        ?command=…&input&output&error&tty
/attach/NAMESPACE/POD/CONTAINER      ?input&output&error&tty
/portForward/NAMESPACE/POD           ?port=…, of clients that use numbered channels
/connect/NAMESPACE/POD               ?port=…

Clients upgrade to a WebSocket (GET, KEP-4006), or to SPDY/3.1 (GET or POST), as kube-apiserver does
up to 1.36 and for its own older clients. /connect is no path of the kubelet's: there our API server
upgrades to `tcp`, a bare connection, to reach webhooks and other servers in pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web

from kubewright.api.resource import NamespacedName
from kubewright.local.node import exec_channels, port_channels, port_forward
from kubewright.local.node import spdy_channels as spdy
from kubewright.local.node import web_socket_channels as web_sockets
from kubewright.local.node.container_streams import Streams
from kubewright.local.node.exec_channels import StreamOptions
from kubewright.local.node.exec_session import ExecSession
from kubewright.local.node.port_channels import PortChannelSession
from kubewright.local.node.port_forward import PortForwardSession
from kubewright.local.node.probe_handlers import dial_error
from kubewright.local.node.runtime import PodRuntime, RunningContainer
from kubewright.local.node.spdy_connection import SpdyConnection, WebSocketCarrier
from kubewright.local.node.stream_refused import StreamRefused
from kubewright.local.relay import relay
from kubewright.local.upgraded_connection import ByteStream, UpgradedResponse, take_over

MAX_MESSAGE = 1 << 25
REFUSAL_HEADER = "Kubewright-Refusal"
VERSION_HEADER = "X-Stream-Protocol-Version"
OpenStreams = Callable[[], Awaitable[Streams]]


class ContainerFinder(Protocol):
    """What the streams ask of the node."""

    @property
    def runtime(self) -> PodRuntime:
        """What runs the containers."""
        ...

    def find_address(self, key: NamespacedName) -> str:
        """Find the address of a pod that has one. Raises StreamRefused."""
        ...

    def find_container(self, key: NamespacedName, container: str) -> RunningContainer:
        """Find a container that runs. Raises StreamRefused."""
        ...


class StreamServer:
    """Answers the requests for streams; `add_to` puts it into the node's endpoint."""

    def __init__(self, node: ContainerFinder) -> None:
        self._node = node

    def add_to(self, application: web.Application) -> None:
        """Add the paths."""
        for path, handler in (
            ("/exec/{namespace}/{pod}/{container}", self._execute),
            ("/attach/{namespace}/{pod}/{container}", self._attach),
            ("/portForward/{namespace}/{pod}", self._forward),
            ("/connect/{namespace}/{pod}", self._connect),
        ):
            application.router.add_get(path, handler)
            application.router.add_post(path, handler)

    async def _execute(self, request: web.Request) -> web.StreamResponse:
        try:
            command = request.query.getall("command", [])
            if not command:
                raise StreamRefused(400, "you must specify a command")
            options = exec_channels.parse_options(request.query)
            container = self._find_container(request)
        except StreamRefused as error:
            return refuse(error)

        async def open_streams() -> Streams:
            return await self._node.runtime.open_command(
                container, command, stdin=options.stdin, tty=options.tty
            )

        failure = "error executing command in container"
        return await _carry(request, options, open_streams, failure)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        try:
            options = exec_channels.parse_options(request.query)
            container = self._find_container(request)
        except StreamRefused as error:
            return refuse(error)

        async def open_streams() -> Streams:
            return self._node.runtime.attach(container, stdin=options.stdin)

        return await _carry(request, options, open_streams, "error attaching to container")

    def _find_container(self, request: web.Request) -> RunningContainer:
        names = request.match_info
        key = NamespacedName(names["namespace"], names["pod"])
        return self._node.find_container(key, names["container"])

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        try:
            address = self._node.find_address(NamespacedName(names["namespace"], names["pod"]))
            target = (names["pod"], address, self._node.runtime.connect)
            if _is_spdy(request):
                async with _open_spdy(request, (port_forward.PROTOCOL,)) as (connection, _):
                    await PortForwardSession(connection, *target).run()
                return UpgradedResponse()
            offered = request.headers.get("Sec-WebSocket-Protocol", "")
            if port_forward.TUNNEL_PROTOCOL in offered:
                socket = await _open_web_socket(request, (port_forward.TUNNEL_PROTOCOL,))
                tunnel = SpdyConnection(WebSocketCarrier(socket))
                await PortForwardSession(tunnel, *target).run()
                return socket
            ports = port_channels.parse_ports(request.query.getall("port", []))
            protocols = port_channels.PROTOCOLS
            socket = await _open_web_socket(request, protocols, required=bool(offered))
        except StreamRefused as error:
            return refuse(error)
        await PortChannelSession(socket, *target, ports).run()
        return socket

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        try:
            address = self._node.find_address(NamespacedName(names["namespace"], names["pod"]))
            port = port_channels.parse_ports(request.query.getall("port", []))[0]
            connection = await self._node.runtime.connect(address, port)
        except StreamRefused as error:
            return refuse(error)
        except OSError as error:
            return refuse(StreamRefused(502, dial_error(address, port, error)))
        async with take_over(request, {"Connection": "Upgrade", "Upgrade": "tcp"}) as client:
            await relay(client, ByteStream(*await asyncio.open_connection(sock=connection)))
        return UpgradedResponse()


async def _carry(
    request: web.Request, options: StreamOptions, open_streams: OpenStreams, failure: str
) -> web.StreamResponse:
    """Upgrade the connection, and carry streams over it."""
    try:
        if not _is_spdy(request):
            socket = await _open_web_socket(request, web_sockets.PROTOCOLS)
            channels = web_sockets.WebSocketChannels(socket)
            await ExecSession(channels, options).run(open_streams, failure)
            return socket
        async with _open_spdy(request, spdy.PROTOCOLS) as (connection, protocol):
            streams = spdy.SpdyChannels(connection, protocol, options)
            if await streams.open():
                await ExecSession(streams, options).run(open_streams, failure)
    except StreamRefused as error:
        return refuse(error)
    return UpgradedResponse()


def _is_spdy(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "spdy/3.1"


@asynccontextmanager
async def _open_spdy(
    request: web.Request, supported: Sequence[str]
) -> AsyncIterator[tuple[SpdyConnection, str]]:
    """Upgrade to SPDY; yields the connection and the version of what it carries."""
    protocol = choose_version(request.headers.getall(VERSION_HEADER, []), supported)
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", VERSION_HEADER: protocol}
    async with take_over(request, headers) as carrier:
        yield SpdyConnection(carrier), protocol


def choose_version(offered: Sequence[str], supported: Sequence[str]) -> str:
    """Return the first version that the client offers and that is supported.

    A client that offers none speaks the first version there was, the last of `supported`.

    Raises:
        StreamRefused: there is none in common.
    """
    offers = [word.strip() for value in offered for word in value.split(",")]
    for protocol in offers:
        if protocol in supported:
            return protocol
    if not offers:
        return supported[-1]
    raise StreamRefused(
        403,
        f"unable to upgrade: unable to negotiate protocol: client supports [{' '.join(offers)}], "
        f"server accepts [{' '.join(supported)}]",
    )


async def _open_web_socket(
    request: web.Request, protocols: tuple[str, ...], *, required: bool = True
) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(
        protocols=protocols, max_msg_size=MAX_MESSAGE, compress=False, heartbeat=None
    )
    if not socket.can_prepare(request):
        raise StreamRefused(
            400,
            "this node streams over SPDY/3.1 or a WebSocket: upgrade to SPDY/3.1, or with "
            f"{', '.join(protocols)}",
        )
    await socket.prepare(request)
    if socket.ws_protocol is None and required:
        await socket.close()
    return socket


def refuse(error: StreamRefused) -> web.Response:
    """Build the answer, whose reason is also in a header: WebSocket clients see no body."""
    text = str(error)
    return web.Response(status=error.status, text=text, headers={REFUSAL_HEADER: text})
