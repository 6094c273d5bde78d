"""pods/proxy, services/proxy and nodes/proxy: HTTP requests that go on into the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubewright.api.errors import BadRequest, NotFound, ServiceUnavailable
from kubewright.local.apiserver.exchange import Answer, Response
from kubewright.local.apiserver.node_proxy import NodeProxy
from kubewright.local.apiserver.proxied_request import ProxiedBody, send_on
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.pod_log import find_address
from kubewright.local.apiserver.rest.routes import Handler
from kubewright.local.apiserver.service_endpoint import find_endpoint

if TYPE_CHECKING:
    import aiohttp


class ClusterProxy:
    """Sends requests on to pods, Services and nodes, with one pool of connections."""

    def __init__(self, nodes: NodeProxy) -> None:
        self._nodes = nodes
        self._session: aiohttp.ClientSession | None = None

    def handler(self) -> Handler:
        """Return the handler of the subresource `proxy`, for all kinds that have it."""
        by_plural = {
            "nodes": self._to_node,
            "pods": self._to_pod,
            "services": self._to_service,
        }

        async def proxy(call: Call) -> Answer:
            if not _path(call):
                # As kube-apiserver: relative links of the answer must lead back here.
                location = call.request.path.rstrip("/") + "/"
                return Response(301, headers=[("Location", location)])
            return await by_plural[call.kind.resource.plural](call)

        return proxy

    async def _to_node(self, call: Call) -> Answer:
        _, name, _ = split_name(call.name)
        address = find_address(call, name)
        request = call.request
        body = ProxiedBody.of(request)
        return await self._nodes.send(address, request.method, _path(call), _query(call), body)

    async def _to_pod(self, call: Call) -> Answer:
        scheme, name, port = split_name(call.name)
        info = replace(call.info, name=name)
        pod = (await replace(call, info=info).read()).object()
        if not port:
            ports = [p for c in pod["spec"]["containers"] for p in c.get("ports") or ()]
            port = str(ports[0]["containerPort"]) if ports else "80"
        return await self._send(call, scheme, f"{name}.{call.namespace}.pod", port)

    async def _to_service(self, call: Call) -> Answer:
        scheme, name, port = split_name(call.name)
        await replace(call, info=replace(call.info, name=name)).read()
        store, choose = call.backend.store, call.backend.random
        wanted = int(port) if port.isdecimal() else port
        try:
            endpoint = find_endpoint(store, call.namespace, name, wanted, choose)
        except LookupError as error:
            raise ServiceUnavailable(str(error.args[0])) from None
        return await self._send(call, scheme, endpoint.host, str(endpoint.port))

    async def _send(self, call: Call, scheme: str, host: str, port: str) -> Answer:
        import aiohttp

        from kubewright.local.apiserver.cluster_connector import ClusterConnector

        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise BadRequest(f"invalid proxy port {port!r}", None)
        if self._session is None:
            connector = ClusterConnector(call.backend.store, self._nodes)
            timeout = aiohttp.ClientTimeout(total=None)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        url = f"{scheme or 'http'}://{host}:{port}{_path(call)}"
        request = call.request
        return await send_on(
            self._session, request.method, url, _query(call), ProxiedBody.of(request)
        )

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()


def split_name(text: str) -> tuple[str, str, str]:
    """Split `[scheme:]name[:port]`.

    Raises:
        NotFound: it is not of this form.
    """
    parts = text.split(":")
    match parts:
        case [name]:
            return "", name, ""
        case [name, port]:
            return "", name, port
        case [("" | "http" | "https") as scheme, name, port]:
            return scheme, name, port
    raise NotFound(f'invalid service request "{text}"')


def _path(call: Call) -> str:
    """Return the path behind `/proxy`; "" where there is not even a slash."""
    _, _, rest = call.request.path.partition(f"/{call.name}/proxy")
    return rest


def _query(call: Call) -> list[tuple[str, str]]:
    return [(name, value) for name, values in call.request.query.items() for value in values]
