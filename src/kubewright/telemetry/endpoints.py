"""The HTTP endpoints of an operator: probes and metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import urlsplit

import msgspec

from kubewright.api.errors import ConfigurationError

if TYPE_CHECKING:
    from aiohttp import web

_OFF = "0"
_HIGHEST_PORT = 65535


class Answer(msgspec.Struct, frozen=True):
    """What an endpoint answers: an HTTP `status`, and a `text` of a `content_type`."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Endpoint: TypeAlias = Callable[[], Answer]
QueryEndpoint: TypeAlias = Callable[[Mapping[str, str]], Answer]


class BindAddress(msgspec.Struct, frozen=True):
    """Where to listen: an empty `host` means all interfaces, `port` 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, flag: str) -> Self | None:
        """Read an address from a text as Go writes it; None for `0`, which means not to listen.

        Raises:
            ConfigurationError: it is not an address; the message names the flag.
        """
        if text == _OFF:
            return None
        host, colon, port = text.rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if is_bracketed else host
        is_port = port.isascii() and port.isdecimal() and int(port) <= _HIGHEST_PORT
        if not colon or not is_port or (":" in host and not is_bracketed):
            raise ConfigurationError(
                f"{flag} {text}: write it as :PORT, HOST:PORT or [IPV6]:PORT, or 0 for none"
            )
        return cls(host, int(port))


@asynccontextmanager
async def serve_endpoints(
    address: BindAddress, endpoints: Mapping[str, Endpoint]
) -> AsyncIterator[BindAddress]:
    """Serve endpoints by path for the time of a block, and tell where.

    Raises:
        ConfigurationError: the address cannot be used, such as one that is in use.
    """
    from aiohttp import web  # here and not above: most programs serve nothing

    application = web.Application()
    for path, endpoint in endpoints.items():
        application.router.add_get(path, _build_handler(endpoint))
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        # An empty host is all interfaces of both families; aiohttp knows that as None.
        site = web.TCPSite(runner, address.host or None, address.port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {address}: {error}") from error
        yield BindAddress(address.host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_locally(
    address: BindAddress, endpoints: Mapping[str, QueryEndpoint]
) -> AsyncIterator[BindAddress]:
    """Serve endpoints that get the query of the request, for whoever has access to this machine.

    The HTTP server is loaded and started with the first request: most processes never see one, and
    it would cost each of them some megabytes. A request must name the server by an IP address or
    as `localhost`: a web page that had its own name point here would read what is served.

    Raises:
        ConfigurationError: the address cannot be used, such as one that is in use.
    """
    try:
        listener = socket.create_server((address.host, address.port))
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {address}: {error}") from error
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        listener.setblocking(False)
        serving = asyncio.create_task(_serve_when_called(listener, endpoints))
        stack.push_async_callback(_end, serving)
        yield BindAddress(address.host, listener.getsockname()[1])


async def _serve_when_called(
    listener: socket.socket, endpoints: Mapping[str, QueryEndpoint]
) -> None:
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, called.set)
    try:
        await called.wait()
    finally:
        loop.remove_reader(listener)
    # In a thread: it takes long enough to be noticed, and the operator works.
    web = await asyncio.to_thread(import_module, "aiohttp.web")
    application = web.Application()
    for path, endpoint in endpoints.items():
        application.router.add_get(path, _build_query_handler(endpoint))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _build_query_handler(endpoint: QueryEndpoint) -> Callable[[web.Request], Any]:
    from aiohttp import web

    async def handle(request: web.Request) -> web.Response:
        if not is_local_name(request.host):
            return web.Response(status=403, text="ask by IP address, or as localhost\n")
        answer = endpoint(dict(request.query))
        headers = {"Content-Type": answer.content_type}
        return web.Response(status=answer.status, body=answer.text.encode(), headers=headers)

    return handle


def is_local_name(host: str) -> bool:
    """Tell whether a Host header is an IP address or `localhost`, with or without a port."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _build_handler(endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.Response]]:
    from aiohttp import web

    async def handle(request: web.Request) -> web.Response:
        answer = endpoint()
        return web.Response(
            status=answer.status,
            body=answer.text.encode(),
            headers={"Content-Type": answer.content_type},
        )

    return handle
