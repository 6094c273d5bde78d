"""OpenTelemetry traces: a span of each reconcile, with the writes to the API server below it.

This module needs the extra `kubewright[otel]`; nothing else imports it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from opentelemetry import context, trace
from opentelemetry.propagate import inject
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import ProxyTracerProvider, Span, SpanKind, Status, StatusCode

from kubewright.api.errors import ConfigurationError, TransportError
from kubewright.client.transport import (
    NO_HEADERS,
    PassingTransport,
    Query,
    Response,
    Transport,
)
from kubewright.runtime.attempt import Attempt, Outcome
from kubewright.runtime.observer import NoControllerObserver, NoObserver
from kubewright.telemetry.redaction import redact

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_FAILED = frozenset({Outcome.ERROR, Outcome.TERMINAL})
_FIRST_ERROR = 400
# Where the object's name begins in a path: after /api/v1 or /apis/GROUP/VERSION.
_CORE_PARTS, _GROUP_PARTS = 2, 3


class Traces(NoObserver):
    """Trace reconciles and their writes; spans of the user's code become their children.

        traces = Traces()
        client.transport = traces.trace_writes(client.transport)
        manager = Manager(client, observer=traces)

    A span has the controller, the kind, the key, the reconcileID of the logs and the outcome; one
    that failed has the deepest cause. Races with other writers are no errors. A reconcile that is
    cancelled at the end of the process has no span. Requests carry the W3C trace context, so that
    an API server that traces continues the trace.

    Arguments:
        provider: where spans go; by default the process's own, as set up by whoever runs it.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("kubewright", tracer_provider=provider)

    def controller(self, name: str, workers: int) -> NoControllerObserver:
        """Return what traces a controller."""
        return _TracedController(self._tracer)

    def trace_writes(self, transport: Transport) -> Transport:
        """Return a transport like this one that makes a span of each write."""
        return _TracedTransport(transport, self._tracer)


def build_provider(name: str) -> trace.TracerProvider:
    """Return the process's provider, or make one that exports as the OTEL_* variables say.

    `name` is the service's, where OTEL_SERVICE_NAME does not say another.

    Raises:
        ConfigurationError: nothing that exports is installed.
    """
    provider = trace.get_tracer_provider()
    if not isinstance(provider, ProxyTracerProvider):
        return provider
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "traces have nowhere to go: install opentelemetry-exporter-otlp-proto-http, or run the "
            "operator under opentelemetry-instrument"
        ) from error
    service = os.environ.get("OTEL_SERVICE_NAME") or name
    made = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made


class _TracedController(NoControllerObserver):
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer
        self._open: dict[Attempt, tuple[Span, object]] = {}

    def began(self, attempt: Attempt) -> None:
        span = self._tracer.start_span(f"reconcile {attempt.resource.kind}")
        if span.is_recording():
            span.set_attributes(
                {
                    "kubewright.controller": attempt.controller,
                    "kubewright.reconcile_id": attempt.id,
                    "k8s.namespace.name": attempt.key.namespace,
                    "kubewright.object.kind": attempt.resource.kind,
                    "kubewright.object.name": attempt.key.name,
                }
            )
        # Attached to the task of the worker, so to whatever the reconcile calls and starts.
        self._open[attempt] = (span, context.attach(trace.set_span_in_context(span)))

    def reconciled(self, attempt: Attempt) -> None:
        span, token = self._open.pop(attempt)
        context.detach(token)  # type: ignore[arg-type] # what `attach` returned
        span.set_attribute("kubewright.outcome", attempt.outcome.value)
        if attempt.outcome in _FAILED:
            span.set_status(Status(StatusCode.ERROR, redact(attempt.failure)))
        span.end()


class _TracedTransport(PassingTransport):
    """Pass requests on; each write is a span."""

    def __init__(self, inner: Transport, tracer: trace.Tracer) -> None:
        super().__init__(inner)
        self._tracer = tracer

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if method not in _WRITES:
            return await self._inner.request(method, path, query=query, headers=headers, body=body)
        name = f"{method} {resource_of(path)}"
        attributes = {"http.request.method": method, "url.path": path}
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
        ) as span:
            carried = dict(headers)
            inject(carried)
            try:
                response = await self._inner.request(
                    method, path, query=query, headers=carried, body=body
                )
            except TransportError as error:
                span.set_status(Status(StatusCode.ERROR, redact(str(error))))
                raise
            span.set_attribute("http.response.status_code", response.status)
            if response.status >= _FIRST_ERROR:
                span.set_status(Status(StatusCode.ERROR))
            return response


def resource_of(path: str) -> str:
    """Return the resource in a path, with its subresource: `deployments/status`.

    Names of objects do not belong in the name of a span: there are too many of them.
    """
    parts = path.strip("/").split("/")
    rest = parts[_CORE_PARTS if parts[0] == "api" else _GROUP_PARTS :]
    is_namespaced = len(rest) > _CORE_PARTS and rest[0] == "namespaces"
    rest = rest[_CORE_PARTS:] if is_namespaced else rest
    return "/".join(rest[::2][:2]) or path
