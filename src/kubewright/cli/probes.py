"""What `kubewright run` serves beside the operators: probes, metrics, and what it did last."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from kubewright.cli.running_operator import announce
from kubewright.telemetry.endpoints import (
    BindAddress,
    Endpoint,
    serve_endpoints,
    serve_locally,
)

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.runtime import Manager, Observer
    from kubewright.telemetry import Metrics, ReconcileRecords

RECORDS_PATH = "/debug/reconciles"

_logger = logging.getLogger("kubewright")


@dataclass(frozen=True, slots=True)
class Probes:
    """Where metrics and probes are served; both may be at one address, or nowhere.

    The records of reconciles have an address of their own, which others must not reach.
    """

    metrics: Metrics | None
    metrics_address: BindAddress | None
    health_address: BindAddress | None
    records: ReconcileRecords | None = None
    debug_address: BindAddress | None = None

    @classmethod
    def parse(cls, metrics_address: str, health_address: str, debug_address: str = "0") -> Self:
        """Read the flags.

        Raises:
            ConfigurationError: one of them is not an address.
        """
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
        return cls(metrics, metrics_at, health_at, records, debug_at)

    @property
    def observer(self) -> Observer:
        """What hears of the manager, for those who can read it."""
        from kubewright.telemetry import combine_observers

        both = (self.metrics, self.records)
        return combine_observers([each for each in both if each is not None])

    def measure(self, client: Client, server: str) -> None:
        """Count the client's requests and note its writes, if anybody can read that."""
        if self.metrics is not None:
            client.transport = self.metrics.measure(client.transport, urlsplit(server).netloc)
        if self.records is not None:
            client.transport = self.records.note_writes(client.transport)

    @asynccontextmanager
    async def serve(self, manager: Manager) -> AsyncIterator[None]:
        """Serve for the time of a block, and log where."""
        async with AsyncExitStack() as stack:
            for address, endpoints in self._build_endpoints(manager).items():
                bound = await stack.enter_async_context(serve_endpoints(address, endpoints))
                _logger.info("serving %s on %s", ", ".join(endpoints), bound)
            if self.records is not None and self.debug_address is not None:
                debug = {RECORDS_PATH: self.records.answer}
                bound = await stack.enter_async_context(serve_locally(self.debug_address, debug))
                stack.enter_context(announce(str(bound)))
                _logger.debug("serving %s on %s", RECORDS_PATH, bound)
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
