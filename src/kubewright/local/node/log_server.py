"""The node's endpoint, which the API server asks for logs (the kubelet's /containerLogs).

GET /healthz                                   anybody
GET /pods                                      the pods of this node
GET /containerLogs/NAMESPACE/POD/CONTAINER     ?follow&previous&tailLines&sinceSeconds&sinceTime
                                               &timestamps&limitBytes
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from aiohttp import web

from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import parse_time
from kubewright.client.clock import Clock
from kubewright.local.node.endpoint_access import EndpointAccess
from kubewright.local.node.log_source import LogRefused, LogSource
from kubewright.local.node.logs import LogOptions, read_log

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TRUE = ("true", "1")


class PodLister(Protocol):
    """What the endpoint asks of the node."""

    def pods(self) -> list[Object]:
        """Return the pods of the node with their latest status."""
        ...

    def find_log(self, key: NamespacedName, container: str, *, previous: bool) -> LogSource:
        """Find the log of a container. Raises LogRefused."""
        ...


class EndpointPart(Protocol):
    """What else the endpoint answers."""

    def add_to(self, application: web.Application) -> None:
        """Add its paths."""
        ...


class LogServer:
    """Serves the endpoint over HTTPS. Use `start`, then `stop`."""

    def __init__(
        self,
        node: PodLister,
        access: EndpointAccess,
        clock: Clock,
        *,
        parts: Sequence[EndpointPart] = (),
    ) -> None:
        self._parts = parts
        self._node = node
        self._access = access
        self._clock = clock
        self._runner: web.AppRunner | None = None

    async def start(self, address: str, port: int = 0) -> int:
        """Listen; return the port."""
        application = web.Application(middlewares=[self._authorize])
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/pods", self._pods)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for part in self._parts:
            part.add_to(application)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        context = self._access.build_context([address], self._clock.now())
        site = web.TCPSite(self._runner, address, port, ssl_context=context)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening and end followed logs."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        authorization = request.headers.get("Authorization", "")
        if request.path != "/healthz" and not self._access.is_allowed(certificate, authorization):
            return web.Response(status=401, text="Unauthorized\n")
        return await handler(request)

    async def _healthz(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok")

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        items = self._node.pods()
        return web.json_response(
            {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}
        )

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        key = NamespacedName(names["namespace"], names["pod"])
        try:
            options = parse_options(request.query, self._clock.now())
            previous = request.query.get("previous") in TRUE
            source = self._node.find_log(key, names["container"], previous=previous)
        except LogRefused as error:
            return web.Response(status=error.status, text=str(error))
        except ValueError as error:
            return web.Response(status=400, text=f"unable to parse log options: {error}")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async for part in read_log(source.path, options, source.is_running):
            await response.write(part)
        await response.write_eof()
        return response


def parse_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """Parse the options of a request for a log.

    Raises:
        ValueError: a number or a time cannot be parsed.
    """

    def number(name: str) -> int | None:
        return int(query[name]) if query.get(name) else None

    since = parse_time(query["sinceTime"]) if query.get("sinceTime") else None
    if seconds := number("sinceSeconds"):
        since = now - timedelta(seconds=seconds)
    return LogOptions(
        follow=query.get("follow") in TRUE,
        tail_lines=number("tailLines"),
        limit_bytes=number("limitBytes"),
        since=since,
        timestamps=query.get("timestamps") in TRUE,
    )
