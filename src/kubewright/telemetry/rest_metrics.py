"""Count requests to the API server, as client-go does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubewright.api.errors import TransportError
from kubewright.client.transport import (
    NO_HEADERS,
    PassingTransport,
    Query,
    Response,
    Stream,
    Transport,
)

_NO_ANSWER = "<error>"
"""client-go's code of a request without an answer."""
SIZE_BUCKETS = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216]
LATENCY_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]


class RESTMetrics:
    """Define client-go's metrics of requests.

    The histograms are as costly as the requests are many, so client-go and this class make them
    only for those who ask.
    """

    def __init__(self, registry: CollectorRegistry, *, histograms: bool) -> None:
        self.requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server by code, method and host.",
            ["code", "method", "host"],
            registry=registry,
        )
        self.has_histograms = histograms
        if histograms:
            self._define_histograms(registry)

    def _define_histograms(self, registry: CollectorRegistry) -> None:
        labels = ["verb", "host"]
        self.seconds = Histogram(
            "rest_client_request_duration_seconds",
            "How long the API server takes to answer; a watch until it is open.",
            labels,
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.sent = Histogram(
            "rest_client_request_size_bytes",
            "Sizes of request bodies.",
            labels,
            buckets=SIZE_BUCKETS,
            registry=registry,
        )
        self.received = Histogram(
            "rest_client_response_size_bytes",
            "Sizes of answers; those of watches are not counted.",
            labels,
            buckets=SIZE_BUCKETS,
            registry=registry,
        )


class MeasuredTransport(PassingTransport):
    """Pass requests on; count each by the code of its answer. A watch counts when it opens."""

    def __init__(
        self, inner: Transport, host: str, metrics: RESTMetrics, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(inner)
        self._host = host
        self._metrics = metrics
        self._monotonic = monotonic

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        """Send a request and count its answer."""
        began = self._monotonic()
        try:
            response = await self._inner.request(
                method, path, query=query, headers=headers, body=body
            )
        except TransportError:
            self._count(_NO_ANSWER, method)
            raise
        self._count(str(response.status), method)
        if self._metrics.has_histograms:
            self._measure(method, self._monotonic() - began)
            self._metrics.sent.labels(method, self._host).observe(len(body))
            self._metrics.received.labels(method, self._host).observe(len(response.body))
        return response

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a stream and count its answer."""
        opening = self._inner.stream(method, path, query=query, headers=headers, body=body)
        return self._open(method, opening)

    @asynccontextmanager
    async def _open(
        self, method: str, opening: AbstractAsyncContextManager[Stream]
    ) -> AsyncIterator[Stream]:
        answered, began = False, self._monotonic()
        try:
            async with opening as stream:
                answered = True
                self._count(str(stream.status), method)
                self._measure(method, self._monotonic() - began)
                yield stream
        except TransportError:
            if not answered:
                self._count(_NO_ANSWER, method)
            raise

    def _count(self, code: str, method: str) -> None:
        self._metrics.requests.labels(code, method, self._host).inc()

    def _measure(self, method: str, seconds: float) -> None:
        if self._metrics.has_histograms:
            self._metrics.seconds.labels(method, self._host).observe(seconds)
