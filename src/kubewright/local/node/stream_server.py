"""The endpoint's streams into pods (the kubelet's /exec and /portForward), over WebSockets.

GET /exec/NAMESPACE/POD/CONTAINER    ?command=…&input&output&error&tty
GET /portForward/NAMESPACE/POD          ?port=…, of clients that use numbered channels
"""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from kubewright.api.resource import NamespacedName
from kubewright.local.node import exec_channels, port_channels, port_forward
from kubewright.local.node.exec_session import ExecSession
from kubewright.local.node.port_channels import PortChannelSession
from kubewright.local.node.port_forward import PortForwardSession
from kubewright.local.node.runtime import PodRuntime, RunningContainer
from kubewright.local.node.stream_refused import StreamRefused

MAX_MESSAGE = 1 << 25
REFUSAL_HEADER = "Kubewright-Refusal"


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
        application.router.add_get("/exec/{namespace}/{pod}/{container}", self._execute)
        application.router.add_get("/portForward/{namespace}/{pod}", self._forward)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        try:
            address = self._node.find_address(NamespacedName(names["namespace"], names["pod"]))
            if any(protocol in offered for protocol in port_forward.PROTOCOLS):
                socket = await _upgrade(request, port_forward.PROTOCOLS)
                ports = []
            else:
                ports = port_channels.parse_ports(request.query.getall("port", []))
                socket = await _upgrade(request, port_channels.PROTOCOLS, required=bool(offered))
        except StreamRefused as error:
            return refuse(error)
        arguments = (socket, names["pod"], address, self._node.runtime.connect)
        if ports:
            await PortChannelSession(*arguments, ports).run()
        else:
            await PortForwardSession(*arguments).run()
        return socket

    async def _execute(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        key = NamespacedName(names["namespace"], names["pod"])
        try:
            options = exec_channels.parse_options(
                request.query.getall("command", []), request.query
            )
            container = self._node.find_container(key, names["container"])
            socket = await _upgrade(request, exec_channels.PROTOCOLS)
        except StreamRefused as error:
            return refuse(error)
        await ExecSession(socket, options).run(self._node.runtime, container)
        return socket


async def _upgrade(
    request: web.Request, protocols: tuple[str, ...], *, required: bool = True
) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(
        protocols=protocols, max_msg_size=MAX_MESSAGE, compress=False, heartbeat=None
    )
    if not socket.can_prepare(request):
        raise StreamRefused(
            400, f"this node streams over WebSocket only: upgrade with {', '.join(protocols)}"
        )
    await socket.prepare(request)
    if socket.ws_protocol is None and required:
        await socket.close()
    return socket


def refuse(error: StreamRefused) -> web.Response:
    """Build the answer, whose reason is also in a header: WebSocket clients see no body."""
    text = str(error)
    return web.Response(status=error.status, text=text, headers={REFUSAL_HEADER: text})
