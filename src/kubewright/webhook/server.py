"""The HTTPS server that an API server asks; it runs in every replica, leading or not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kubewright.api.errors import ConfigurationError, KubewrightError
from kubewright.api.resource import Object
from kubewright.client.clock import Clock, SystemClock
from kubewright.runtime.operator import CONVERT_PATH, Operator
from kubewright.webhook.bounded_call import BoundedCalls
from kubewright.webhook.certificate_source import CertificateSource
from kubewright.webhook.configuration import Endpoint
from kubewright.webhook.handler import Webhook, WebhookHandler, build_webhooks
from kubewright.webhook.observer import NoObserver, WebhookObserver
from kubewright.webhook.registration import Registration
from kubewright.webhook.tls import SwappableTLS

if TYPE_CHECKING:
    from aiohttp import web

_KEEPALIVE_SECONDS = 150
"""Longer than a Go client keeps idle connections (90 s): who closes first loses no request."""
_SHUTDOWN_SECONDS = 10
_RETRY_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class WebhookServer:
    """Serve the webhooks of some operators, and keep the API server told where they are.

    Start: the certificate is loaded, then the server listens, then the webhooks are registered. A
    certificate that changes is swapped under the listener. Until the first one is loaded the
    process is not ready. Give it to a manager with `needs_leader_election=False`.

    Arguments:
        host, port: where to listen; an empty host means all interfaces, port 0 any free port.
        certificates: where the serving certificate comes from.
        endpoint: how the API server reaches the server, which gives the certificate its names.
        registration: what tells the API server; without it or an endpoint, manifests do.
        observer: hears of calls and certificates, such as `Metrics().webhooks`.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        *,
        host: str = "",
        port: int = 9443,
        certificates: CertificateSource,
        endpoint: Endpoint | None = None,
        registration: Registration | None = None,
        observer: WebhookObserver | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._observer: WebhookObserver = NoObserver() if observer is None else observer
        self.webhooks: Sequence[Webhook] = build_webhooks(operators)
        self._host, self._wanted_port = host, port
        self._certificates = certificates
        self._endpoint = endpoint
        self._registration = registration
        self._clock: Clock = SystemClock() if clock is None else clock
        self._tls = SwappableTLS()
        self._calls = BoundedCalls()
        self._trusted: bytes | None = None if registration is None or endpoint is None else b""
        self._problem = "no certificate is loaded"
        self._told: dict[str, str] = {}
        self._authorities = b""
        self.port = 0
        self.is_registered = False

    def find_problems(self) -> Sequence[str]:
        """Tell why webhooks cannot be answered; a failing renewal alone is no reason yet."""
        return () if self.port else (f"webhooks are not served: {self._problem}",)

    @property
    def conversion_config(self) -> Object | None:
        """The clientConfig of conversions, for `Operator.ensure_crds`; None without an endpoint."""
        if self._endpoint is None:
            return None
        return self._endpoint.build_client_config(CONVERT_PATH)

    async def prepare_conversions(self) -> None:
        """Let CRDs that are installed already lead here, so that they can be applied."""
        if self._registration is not None and self._endpoint is not None:
            await self._registration.switch_conversions(self._endpoint)

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ConfigurationError: the address cannot be used.
        """
        # Where that is refused, so will be the registration: what can be served is served.
        await self._step(self._read_trusted)
        while not await self._step(self._load):
            await self._clock.sleep(_RETRY_SECONDS)
        async with self._listen() as port:
            self.port = port
            _logger.info("serving webhooks on %s:%d", self._host, port)
            try:
                await self._keep()
            finally:
                self.port = 0

    async def _keep(self) -> None:
        interval = self._certificates.interval.total_seconds()
        while True:
            steps = [await self._step(self._register), await self._step(self._load)]
            if self._trusted is not None and self._trusted != self._authorities:
                # What a new certificate needs to be trusted is written at once.
                steps.append(await self._step(self._register))
            await self._clock.sleep(interval if all(steps) else min(interval, _RETRY_SECONDS))

    async def _step(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Try a step; tell whether it worked. A failure is logged once for each text."""
        name = getattr(step, "__name__", "")
        try:
            await step()
        except KubewrightError as error:
            self._problem = str(error)
            if self._told.get(name) != self._problem:
                self._told[name] = self._problem
                _logger.warning("webhooks: %s", error)
            return False
        self._told.pop(name, None)
        return True

    async def _read_trusted(self) -> None:
        """Find out what replicas that are there already have registered."""
        if self._registration is not None and self._endpoint is not None:
            self._trusted = await self._registration.read_authorities()

    async def _load(self) -> None:
        names = [] if self._endpoint is None else self._endpoint.names
        try:
            serving = await self._certificates.load(names, self._trusted)
            is_new = self._tls.load(serving)
        except KubewrightError:
            self._observer.certificate_read(failed=True)
            raise
        self._observer.certificate_read()
        if is_new:
            _logger.info("webhooks: a new serving certificate is loaded")
        self._authorities = serving.authorities

    async def _register(self) -> None:
        if self._registration is not None and self._endpoint is not None:
            endpoint = self._endpoint.at_port(self.port)
            await self._registration.ensure(endpoint, self._authorities)
            self._trusted = self._authorities
        self.is_registered = True

    @asynccontextmanager
    async def _listen(self) -> AsyncIterator[int]:
        from aiohttp import web

        application = web.Application()
        for webhook in self.webhooks:
            handler = WebhookHandler(webhook, self._calls, self._observer)
            application.router.add_post(webhook.path, handler.handle)
        runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._host or None, self._wanted_port, ssl_context=self._tls.context
            )
            try:
                await site.start()
            except OSError as error:
                raise ConfigurationError(
                    f"cannot serve webhooks on {self._host}:{self._wanted_port}: {error}"
                ) from error
            yield runner.addresses[0][1]
        finally:
            await _end(runner)


async def _end(runner: web.AppRunner) -> None:
    """Answer what is being asked, then end all connections."""
    connections = [] if runner.server is None else runner.server.connections
    transports = [connection.transport for connection in connections]
    await runner.cleanup()
    for transport in transports:
        # Closed politely, it would outlive the loop: it waits half a minute for the other side.
        if transport is not None:
            transport.abort()
    await asyncio.sleep(0)
