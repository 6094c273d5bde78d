"""What `kubewright run` serves beside the operators: probes and metrics."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from kubewright.telemetry.endpoints import BindAddress, Endpoint, serve_endpoints

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.runtime import Manager
    from kubewright.telemetry import Metrics

_logger = logging.getLogger("kubewright")


@dataclass(frozen=True, slots=True)
class Probes:
    """Where metrics and probes are served; both may be at one address, or nowhere."""

    metrics: Metrics | None
    metrics_address: BindAddress | None
    health_address: BindAddress | None

    @classmethod
    def parse(cls, metrics_address: str, health_address: str) -> Self:
        """Read the flags.

        Raises:
            ConfigurationError: one of them is not an address.
        """
        metrics_at = BindAddress.parse(metrics_address, "--metrics-bind-address")
        health_at = BindAddress.parse(health_address, "--health-probe-bind-address")
        metrics = None
        if metrics_at is not None:
            from kubewright.telemetry import Metrics  # loads prometheus-client

            metrics = Metrics()
        return cls(metrics, metrics_at, health_at)

    def measure(self, client: Client, server: str) -> None:
        """Count the client's requests, if anybody can read the count."""
        if self.metrics is not None:
            client.transport = self.metrics.measure(client.transport, urlsplit(server).netloc)

    @asynccontextmanager
    async def serve(self, manager: Manager) -> AsyncIterator[None]:
        """Serve for the time of a block, and log where."""
        async with AsyncExitStack() as stack:
            for address, endpoints in self._build_endpoints(manager).items():
                bound = await stack.enter_async_context(serve_endpoints(address, endpoints))
                _logger.info("serving %s on %s", ", ".join(endpoints), bound)
            yield

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
