"""The HTTP endpoints of an operator: probes and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

from kubewright.api.errors import ConfigurationError

if TYPE_CHECKING:
    from aiohttp import web

_OFF = "0"
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint answers."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Endpoint: TypeAlias = Callable[[], Answer]


@dataclass(frozen=True, slots=True)
class BindAddress:
    """Where to listen: `:8080` means all interfaces; port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, flag: str) -> Self | None:
        """Read an address as Go writes it; None for `0`, which means not to listen.

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
