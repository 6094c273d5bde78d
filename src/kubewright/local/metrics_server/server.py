"""The metrics server: an aggregated API server, and the look at the nodes every 15 seconds."""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from aiohttp import web

from kubewright.api import builtin
from kubewright.api.errors import APIError, KubewrightError, MethodNotAllowed, Unauthorized
from kubewright.api.resource import Object
from kubewright.local.metrics_server.answers import MetricsAnswers, PathUnknown
from kubewright.local.metrics_server.front_proxy_trust import FrontProxyTrust, read_trust
from kubewright.local.metrics_server.registration import (
    SERVER_NAME,
    build_registration,
    ensure_registration,
)
from kubewright.local.metrics_server.scraper import Scraper
from kubewright.local.metrics_server.usage_store import UsageStore
from kubewright.runtime.context import Environment
from kubewright.webhook.certificate import (
    encode_certificates,
    encode_key,
    make_authority,
    make_serving,
)

_RETRY_SECONDS = 1.0
_LIFETIME = timedelta(days=365)
_HEALTH = ("/healthz", "/livez", "/readyz")

_logger = logging.getLogger(__name__)
T = TypeVar("T")


class MetricsServer:
    """Serves metrics.k8s.io; a runnable of the manager whose environment it is given.

    `host` is a DNS name of this machine for the API server, `address` where it listens. Only the
    API server may ask. A node that does not answer is left out until it does; what it told before
    counts for two minutes.
    """

    def __init__(
        self, environment: Environment, *, host: str = "localhost", address: str = "127.0.0.1"
    ) -> None:
        self._client = environment.client
        self._clock = environment.clock
        nodes = environment.cache.store(builtin.NODE)
        pods = environment.cache.store(builtin.POD)
        usage = UsageStore()
        self._scraper = Scraper(self._client, self._clock, nodes, usage)
        self._answers = MetricsAnswers(nodes, pods, usage, self._clock)
        self._host = host
        self._address = address
        self._trust = FrontProxyTrust()

    async def run(self) -> None:
        """Serve, register and look, until cancelled."""
        self._trust = await self._insist(lambda: read_trust(self._client))
        if not self._trust.authority:
            _logger.warning(
                "the API server does not identify itself to aggregated ones "
                "(--requestheader-client-ca-file): metrics.k8s.io refuses its requests"
            )
        runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await runner.setup()
        try:
            authority = await self._listen(runner)
            port = int(runner.addresses[0][1])
            objects = build_registration(self._host, port, authority)
            await self._insist(lambda: ensure_registration(self._client, objects))
            await self._scraper.run()
        finally:
            await runner.cleanup()

    async def _insist(self, action: Callable[[], Awaitable[T]]) -> T:
        """Try until it works: an API server that is away must not end the manager."""
        while True:
            try:
                return await action()
            except KubewrightError as error:
                _logger.warning("metrics.k8s.io cannot be registered yet: %s", error)
                await self._clock.sleep(_RETRY_SECONDS)

    async def _listen(self, runner: web.ServerRunner) -> bytes:
        """Listen with a fresh certificate; return the PEM text of the authority that signed it."""
        now = self._clock.now()
        context, authority = await asyncio.to_thread(_build_tls, self._trust, now)
        await web.TCPSite(runner, self._address, 0, ssl_context=context).start()
        return authority

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path in _HEALTH:
            return web.Response(text="ok")
        try:
            return _respond(200, self._answer(request))
        except PathUnknown:
            return web.Response(status=404, text="404 page not found\n")
        except APIError as error:
            return _respond(error.code, error.to_status())

    def _answer(self, request: web.BaseRequest) -> Object:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        if not self._trust.is_trusted(certificate):
            raise Unauthorized("Unauthorized", None)
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource", None
            )
        as_table = "as=Table" in request.headers.get("Accept", "")
        return self._answers.answer(request.path, request.query, as_table=as_table)


def _build_tls(trust: FrontProxyTrust, now: datetime) -> tuple[ssl.SSLContext, bytes]:
    authority, key = make_authority(now, _LIFETIME)
    serving, serving_key = make_serving(authority, key, [SERVER_NAME], now, _LIFETIME)
    # Python loads a key only from a file.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tls.pem")
        file.touch(mode=0o600)
        file.write_bytes(encode_key(serving_key) + encode_certificates([serving]))
        return trust.build_context(file), encode_certificates([authority])


def _respond(status: int, body: Object) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json"
    )
