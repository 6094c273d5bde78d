"""What `kubewright run` serves beside the operators: probes, metrics, and what it did last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.cli.running_operator import announce
from kubewright.telemetry.endpoints import (
    BindAddress,
    Endpoint,
    serve_endpoints,
    serve_locally,
)

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from kubewright.client import Client
    from kubewright.runtime import Manager, Observer
    from kubewright.telemetry import Metrics, ReconcileRecords, Traces, Watchdog

RECORDS_PATH = "/debug/reconciles"

_logger = logging.getLogger("kubewright")


class Probes(msgspec.Struct, frozen=True):
    """Where metrics and probes are served; both may be at one address, or nowhere.

    The records of reconciles have an address of their own, which others must not reach.
    """

    metrics: Metrics | None
    metrics_address: BindAddress | None
    health_address: BindAddress | None
    watchdog: Watchdog
    records: ReconcileRecords | None = None
    debug_address: BindAddress | None = None
    provider: TracerProvider | None = None

    @classmethod
    def parse(
        cls,
        metrics_address: str,
        health_address: str,
        debug_address: str = "0",
        *,
        service: str | None = None,
    ) -> Self:
        """Read the flags; a `service` sends traces in its name.

        Raises:
            ConfigurationError: one of them is not an address, or traces cannot be sent.
        """
        from kubewright.telemetry import Watchdog

        metrics_at = BindAddress.parse(metrics_address, "--metrics-bind-address")
        health_at = BindAddress.parse(health_address, "--health-probe-bind-address")
        debug_at = BindAddress.parse(debug_address, "--debug-bind-address")
        metrics, records = None, None
        if metrics_at is not None:
            from kubewright.telemetry import Metrics  # loads prometheus-client

            metrics = Metrics()
        if debug_at is not None:
            from kubewright.telemetry import ReconcileRecords

            records = ReconcileRecords()
        watchdog = Watchdog(None if metrics is None else metrics.blocked)
        provider = None if service is None else _build_provider(service)
        return cls(metrics, metrics_at, health_at, watchdog, records, debug_at, provider)

    @property
    def observer(self) -> Observer:
        """What hears of the manager, for those who can read it."""
        from kubewright.telemetry import combine_observers

        observers = (self.metrics, self.records, self._traces, self.watchdog)
        return combine_observers([each for each in observers if each is not None])

    @property
    def _traces(self) -> Traces | None:
        if self.provider is None:
            return None
        from kubewright.telemetry import Traces

        return Traces(self.provider)

    def measure(self, client: Client, server: str) -> None:
        """Count the client's requests, note and trace its writes, if anybody can read that."""
        if self.metrics is not None:
            client.transport = self.metrics.measure(client.transport, urlsplit(server).netloc)
        if self.records is not None:
            client.transport = self.records.note_writes(client.transport)
        if (traces := self._traces) is not None:
            client.transport = traces.trace_writes(client.transport)

    @asynccontextmanager
    async def serve(self, manager: Manager) -> AsyncIterator[None]:
        """Serve, and watch the event loop, for the time of a block; log where it is served."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._send_traces)
            for address, endpoints in self._build_endpoints(manager).items():
                bound = await stack.enter_async_context(serve_endpoints(address, endpoints))
                _logger.info("serving %s on %s", ", ".join(endpoints), bound)
            if self.records is not None and self.debug_address is not None:
                debug = {RECORDS_PATH: self.records.answer}
                bound = await stack.enter_async_context(serve_locally(self.debug_address, debug))
                stack.enter_context(announce(str(bound)))
                _logger.debug("serving %s on %s", RECORDS_PATH, bound)
            # Last: what was loaded until here took its time, and nothing waited for it.
            await stack.enter_async_context(self.watchdog.watching())
            yield

    async def _send_traces(self) -> None:
        """Send what was not sent yet; that blocks, so it is done in a thread."""
        shutdown = getattr(self.provider, "shutdown", None)
        if shutdown is not None:
            await asyncio.to_thread(shutdown)

    def _build_endpoints(self, manager: Manager) -> dict[BindAddress, dict[str, Endpoint]]:
        endpoints: dict[BindAddress, dict[str, Endpoint]] = {}
        if self.health_address is not None:
            from kubewright.telemetry import Health

            health = Health(manager, monotonic=manager.clock.monotonic)
            probes: dict[str, Endpoint] = {"/healthz": health.alive, "/readyz": health.ready}
            endpoints[self.health_address] = probes
        if self.metrics is not None and self.metrics_address is not None:
            endpoints.setdefault(self.metrics_address, {})["/metrics"] = self.metrics.answer
        return endpoints


def _build_provider(service: str) -> TracerProvider:
    try:
        from kubewright.telemetry.traces import build_provider
    except ModuleNotFoundError as error:
        raise ConfigurationError("traces need OpenTelemetry: install kubewright[otel]") from error
    return build_provider(service)
