"""The HTTPS server that an API server asks; it runs in every replica, leading or not."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kubewright.api.errors import (
    APIError,
    BadRequest,
    ConfigurationError,
    InternalError,
    KubewrightError,
    RequestEntityTooLarge,
    UnsupportedMediaType,
)
from kubewright.api.resource import Object
from kubewright.client.clock import Clock, SystemClock
from kubewright.runtime.failure import describe
from kubewright.runtime.operator import CONVERT_PATH, Operator
from kubewright.webhook.bounded_call import BoundedCalls
from kubewright.webhook.certificate_source import CertificateSource
from kubewright.webhook.configuration import (
    Endpoint,
    defaulting_webhooks,
    validating_webhooks,
)
from kubewright.webhook.conversion import ConversionWebhook
from kubewright.webhook.registration import Registration
from kubewright.webhook.tls import SwappableTLS

if TYPE_CHECKING:
    from aiohttp import web

_KEEPALIVE_SECONDS = 150
"""Longer than a Go client keeps idle connections (90 s): who closes first loses no request."""
_SHUTDOWN_SECONDS = 10
_RETRY_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class Webhook(Protocol):
    """What answers at one path: `AdmissionWebhook` and `ConversionWebhook`."""

    @property
    def path(self) -> str:
        """Where it is served."""
        ...

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def body_limit(self) -> int:
        """How many bytes a request may have."""
        ...

    @property
    def default_timeout(self) -> float:
        """The seconds that whoever asks waits, where the request does not tell."""
        ...

    def decode(self, body: bytes) -> Any:
        """Read a request; raise BadRequest where it is none."""
        ...

    def review(self, request: Any) -> Object:
        """Return the review that answers a request."""
        ...

    def refuse(self, request: Any, error: APIError) -> Object:
        """Return the review that refuses a request because of an error."""
        ...


def build_webhooks(operators: Sequence[Operator]) -> list[Webhook]:
    """Build all webhooks of some operators.

    Raises:
        ConfigurationError: a conversion is missing, or two operators answer for one kind.
    """
    webhooks: list[Webhook] = []
    for operator in operators:
        webhooks += defaulting_webhooks(operator)
        webhooks += validating_webhooks(operator)
    conversion = ConversionWebhook(operators)
    if conversion.resources:
        webhooks.append(conversion)
    for path, count in Counter(webhook.path for webhook in webhooks).items():
        if count > 1:
            raise ConfigurationError(
                f"{count} operators answer at {path}: let one of them have all functions of a kind"
            )
    return webhooks


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
        clock: Clock | None = None,
    ) -> None:
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
            is_done = await self._step(self._register) and await self._step(self._load)
            # What a new certificate needs to be trusted is written at once.
            if is_done and not await self._step(self._register):
                is_done = False
            await self._clock.sleep(interval if is_done else min(interval, _RETRY_SECONDS))

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

    async def _load(self) -> None:
        names = [] if self._endpoint is None else self._endpoint.names
        serving = await self._certificates.load(names, self._trusted)
        if self._tls.load(serving):
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
            application.router.add_post(webhook.path, partial(self._handle, webhook))
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

    async def _handle(self, webhook: Webhook, http: web.Request) -> web.Response:
        seconds = read_timeout(http.query, webhook.default_timeout)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                body = await _read(http, webhook.body_limit)
            request = webhook.decode(body)
        except TimeoutError:
            return _respond(408, BadRequest("the body did not come in time").to_status())
        except APIError as error:
            _logger.warning("webhook %s: %s", webhook.path, error)
            return _respond(error.code, error.to_status())
        return _respond(200, await self._answer(webhook, request, deadline - loop.time()))

    async def _answer(self, webhook: Webhook, request: Any, seconds: float) -> Object:
        """Ask the functions for at most some seconds; whatever they do, there is an answer."""
        try:
            review = await self._calls.call(partial(webhook.review, request), seconds)
        except APIError as error:
            self._tell(webhook, error, str(error))
            return webhook.refuse(request, error)
        except Exception as error:
            text = describe(error)
            self._tell(webhook, error, text)
            return webhook.refuse(request, InternalError(text, None))
        self._told.pop(webhook.path, None)
        return review

    def _tell(self, webhook: Webhook, error: Exception, text: str) -> None:
        """Log a failure with its traceback; the same one again only when asked for details."""
        is_known = self._told.get(webhook.path) == text
        self._told[webhook.path] = text
        level = logging.DEBUG if is_known else logging.ERROR
        fault = None if isinstance(error, KubewrightError) else error
        _logger.log(level, "webhook %s: %s", webhook.path, text, exc_info=fault)


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


async def _read(http: web.Request, limit: int) -> bytes:
    """Read the body.

    Raises:
        UnsupportedMediaType: it is not JSON.
        RequestEntityTooLarge: it is larger than a review can be.
    """
    if http.content_type != "application/json":
        raise UnsupportedMediaType(f"send application/json, not {http.content_type}", None)
    too_large = RequestEntityTooLarge(f"the review has more than {limit} bytes", None)
    if (http.content_length or 0) > limit:
        raise too_large
    chunks, size = [], 0
    async for chunk in http.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise too_large
    return b"".join(chunks)


def read_timeout(query: Mapping[str, str], default: float) -> float:
    """Return the seconds that functions may take: what the API server waits, less a margin.

    It says in the query how long it waits, such as `?timeout=10s`.
    """
    text = query.get("timeout") or ""
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = default
    if not 0 < seconds <= default * 10:
        seconds = default
    return seconds - min(1.0, max(0.2, seconds / 10)) if seconds > 0.4 else seconds / 2


def _respond(status: int, body: Object) -> web.Response:
    from aiohttp import web

    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json"
    )
