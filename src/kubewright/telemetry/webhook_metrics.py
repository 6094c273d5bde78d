"""The metrics of webhooks and of their certificates, as controller-runtime names them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kubewright.telemetry.controller_metrics import QUEUE_BUCKETS


class WebhookMetrics:
    """Define the metrics once, and give each webhook its own series of them.

    Its path is a webhook's label.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "How long webhooks take to answer.",
            ["webhook"],
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )
        self.requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Calls of webhooks by the HTTP code of the answer.",
            ["webhook", "code"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Calls that webhooks work on.",
            ["webhook"],
            registry=registry,
        )
        self.panics = Counter(
            "controller_runtime_webhook_panics_total",
            "Calls of admission webhooks in which the user's function raised what it should not.",
            registry=registry,
        )
        self.conversion_panics = Counter(
            "controller_runtime_conversion_webhook_panics_total",
            "Calls of conversion webhooks in which the user's function raised what it should not.",
            registry=registry,
        )
        self.certificates = Counter(
            "certwatcher_read_certificate_total",
            "How often a serving certificate was read or made anew.",
            registry=registry,
        )
        self.certificate_errors = Counter(
            "certwatcher_read_certificate_errors_total",
            "How often that failed; the former certificate goes on.",
            registry=registry,
        )

    def webhook(self, path: str, *, converts: bool = False) -> ObservedWebhook:
        """Return the observer of a webhook; its series are there from now on."""
        return ObservedWebhook(self, path, self.conversion_panics if converts else self.panics)

    def certificate_read(self, *, failed: bool = False) -> None:
        """Count a certificate that was read or made, or could not be."""
        self.certificates.inc()
        if failed:
            self.certificate_errors.inc()


class ObservedWebhook:
    """Count what happens to one webhook."""

    def __init__(self, metrics: WebhookMetrics, path: str, panics: Counter) -> None:
        self._path = path
        self._requests = metrics.requests
        self._latency = metrics.latency.labels(path)
        self._in_flight = metrics.in_flight.labels(path)
        self._panics = panics
        # What is counted from 0 has a rate from the first call on.
        for code in ("200", "500"):
            metrics.requests.labels(path, code)

    def called(self) -> None:
        """Count a call that begins; `answered` must follow."""
        self._in_flight.inc()

    def answered(self, code: int, seconds: float) -> None:
        """Count the answer to a call: its HTTP code, and how long it took."""
        self._in_flight.dec()
        self._requests.labels(self._path, str(code)).inc()
        self._latency.observe(seconds)

    def panicked(self) -> None:
        """Count a call in which the user's function raised what it should not."""
        self._panics.inc()
