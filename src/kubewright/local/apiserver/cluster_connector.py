"""Connections to pods: through their nodes, since pods have a network of their own."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from aiohttp import ClientTimeout, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.tracing import Trace

from kubewright.api.errors import APIError
from kubewright.local.apiserver.node_proxy import NodeAddress, NodeProxy
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.store import VersionedStore

if TYPE_CHECKING:
    from kubewright.local.upgraded_connection import ByteStream

SUFFIX = ".pod"


class ClusterConnector(TCPConnector):
    """Connects aiohttp's sessions to POD.NAMESPACE.pod through the pod's node; others directly."""

    def __init__(self, store: VersionedStore, nodes: NodeProxy) -> None:
        super().__init__(limit=0)
        self._store = store
        self._nodes = nodes
        # A stream that nobody holds closes its connection.
        self._streams: WeakKeyDictionary[ResponseHandler, ByteStream] = WeakKeyDictionary()

    # The one method that each of aiohttp's connectors has of its own.
    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout
    ) -> ResponseHandler:
        host = req.url.host or ""
        if not host.endswith(SUFFIX):
            return await super()._create_connection(req, traces, timeout)
        name, namespace = host.removesuffix(SUFFIX).rsplit(".", 1)
        try:
            stream = await self._dial(namespace, name, req.url.port or 80)
        except APIError as error:
            raise ConnectionError(error.message) from error
        transport, protocol = stream.detach(), self._factory()
        self._streams[protocol] = stream
        transport.set_protocol(protocol)
        if req.is_ssl():
            context = req.ssl if isinstance(req.ssl, ssl.SSLContext) else _trusting()
            secured = await asyncio.get_running_loop().start_tls(
                transport, protocol, context, server_hostname=req.server_hostname or host
            )
            assert secured is not None, "the loop returns a transport, or raises"
            transport = secured
        protocol.connection_made(transport)
        return protocol

    async def _dial(self, namespace: str, name: str, port: int) -> ByteStream:
        """Connect to a port of a pod.

        Raises:
            APIError: there is no such pod on a node, or nobody listens.
        """
        pod = self._store.get(f"{key_prefix('', 'pods')}{namespace}/{name}")
        node_name = pod and (decode_json(pod.value or b"{}").get("spec") or {}).get("nodeName")
        node = node_name and self._store.get(f"{key_prefix('', 'nodes')}{node_name}")
        address = NodeAddress.of(decode_json(node.value or b"{}")) if node else None
        if address is None:
            raise APIError(f"pod {namespace}/{name} has no node that can be reached", None)
        path, query = f"/connect/{namespace}/{name}", [("port", str(port))]
        stream, _ = await self._nodes.upgrade(address, path, query, [("Upgrade", "tcp")])
        return stream


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
