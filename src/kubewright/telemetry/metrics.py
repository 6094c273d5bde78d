"""All metrics of a process, in a registry of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from kubewright.cache.cache import Cache
from kubewright.client.transport import Transport
from kubewright.runtime.observer import ControllerObserver
from kubewright.telemetry.controller_metrics import ControllerMetrics
from kubewright.telemetry.endpoints import Answer
from kubewright.telemetry.rest_metrics import MeasuredTransport, RESTMetrics
from kubewright.telemetry.watch_metrics import WatchMetrics
from kubewright.telemetry.webhook_metrics import WebhookMetrics

BLOCKED_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60]


class Metrics:
    """Measure managers and requests under controller-runtime's names and labels.

        metrics = Metrics()
        client.transport = metrics.measure(client.transport, "10.96.0.1:443")
        manager = Manager(client, observer=metrics)

    Series of a controller are there, with 0, before its first reconcile. One `Metrics` may serve
    several managers, as long as their controllers have different names. A difference to
    controller-runtime: what raced with another writer (Conflict, AlreadyExists, NotFound) counts
    with the result `requeue` and not as an error. All of them are in docs/metrics.md.

    Arguments:
        registry: where the metrics are defined; the user's own can be there too. By default a new
            one, with the metrics of the process.
        monotonic: the clock of the managers, in seconds.
        rest_client_histograms: also measure how long requests take and how large they are.
    """

    detailed = False

    def __init__(
        self,
        *,
        registry: CollectorRegistry | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        rest_client_histograms: bool = False,
    ) -> None:
        if registry is None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
        self.registry = registry
        self._controllers = ControllerMetrics(registry, monotonic)
        self._monotonic = monotonic
        self._watches = WatchMetrics(registry, monotonic)
        self._requests = RESTMetrics(registry, histograms=rest_client_histograms)
        self.webhooks = WebhookMetrics(registry)
        self._leading = Gauge(
            "leader_election_master_status",
            "1 while this process leads, 0 while it stands by.",
            ["name"],
            registry=registry,
        )

        self._slow_renewals = Counter(
            "leader_election_slowpath_total",
            "Times a leader had to read its Lease before it could renew it.",
            ["name"],
            registry=registry,
        )
        self._blocked = Histogram(
            "kubewright_event_loop_blocked_seconds",
            "For how long the event loop did not turn, where that was over the watchdog's limit.",
            buckets=BLOCKED_BUCKETS,
            registry=registry,
        )

    def attached(self, cache: Cache) -> None:
        """Measure how a manager's cache follows the API server."""
        self._watches.add(cache)

    def controller(self, name: str, workers: int) -> ControllerObserver:
        """Return the observer of a controller."""
        return self._controllers.controller(name, workers)

    def leading(self, lease: str, *, is_leading: bool) -> None:
        """Note whether this process leads."""
        self._leading.labels(lease).set(is_leading)
        self._slow_renewals.labels(lease)

    def renewed_slowly(self, lease: str) -> None:
        """Count a renewal that needed a read."""
        self._slow_renewals.labels(lease).inc()

    def blocked(self, seconds: float) -> None:
        """Count a block of the event loop; see `Watchdog`."""
        self._blocked.observe(seconds)

    def measure(self, transport: Transport, host: str) -> Transport:
        """Return a transport like this one that counts requests to a host, such as `HOST:PORT`."""
        return MeasuredTransport(transport, host, self._requests, self._monotonic)

    def answer(self) -> Answer:
        """Write all metrics in Prometheus' text format."""
        text = generate_latest(_WithoutCreated(self.registry))
        return Answer(200, text.decode(), CONTENT_TYPE_PLAIN_0_0_4)


class _WithoutCreated(Collector):
    """Leave out the series `*_created` that prometheus-client adds and the Go client does not."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
